# Plays the walks on stdin with the official package; prints its answers and its speed as one line of JSON.
import json
import sys
import time

import textworld
import textworld.gym
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

walks = json.load(sys.stdin)
answers, reset_seconds, step_seconds, steps = [], 0.0, 0.0, 0
infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
for walk in walks:
    env_id = textworld.gym.register_games(
        [walk["file"]],
        infos,
        batch_size=1,
        asynchronous=False,
        max_episode_steps=1000,
        wrappers=[AlfredDemangler(shuffle=False), AlfredInfos],
    )
    env = textworld.gym.make(env_id)
    start = time.process_time()
    observation, info = env.reset()
    reset_seconds += time.process_time() - start
    said = [[observation[0], info["admissible_commands"][0], bool(info["won"][0])]]
    start = time.process_time()
    for command in walk["commands"]:
        observation, _, _, info = env.step([command])
        said.append([observation[0], list(info["admissible_commands"][0]), bool(info["won"][0])])
        steps += 1
    step_seconds += time.process_time() - start
    answers.append(said)
    env.close()
print(json.dumps({
    "answers": answers,
    "steps_per_cpu_second": steps / step_seconds,
    "cpu_seconds_per_reset": reset_seconds / len(walks),
}))
