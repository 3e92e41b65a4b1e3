# Plays the episodes on stdin with RL4VLM's gym_cards; prints its answers and its speed as one line of JSON.
import hashlib
import json
import random
import sys
import time

from gym_cards.envs.ezpoints import EZPointEnv

episodes = json.load(sys.stdin)
env = EZPointEnv()
answers, used, observations = [], 0.0, 0


def timed(work):
    global used
    start = time.process_time()
    result = work()
    used += time.process_time() - start
    return result


for episode in episodes:
    random.seed(episode["seed"])
    frame, info = timed(env.reset)
    answers.append([info["Cards"], 0.0, False, hashlib.sha256(frame.tobytes()).hexdigest()])
    for action in episode["actions"]:
        frame, reward, done, _, info = timed(lambda: env.step(action))
        answers.append([info["Cards"], float(reward), bool(done), hashlib.sha256(frame.tobytes()).hexdigest()])
    observations += 1 + len(episode["actions"])
start, draws = time.process_time(), 0
while time.process_time() - start < 1:
    env._get_observation()
    draws += 1
print(json.dumps({
    "answers": answers,
    "episodes": len(episodes) / used,
    "observations": observations / used,
    "draws": draws / (time.process_time() - start),
}))
