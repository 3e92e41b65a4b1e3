# Plays the episodes on stdin with gym-sokoban; prints its answers and its speed as one line of JSON.
import json
import random
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import numpy as np
from gym_sokoban.envs import SokobanEnv
from gym_sokoban.envs.room_utils import generate_room

SIGNS = {0: "#", 1: "_", 2: "O", 3: "√", 4: "X", 5: "P", 6: "S"}


def load(env, episode):
    shape = (episode["rows"], episode["columns"])
    env.room_fixed = np.array(episode["fixed"]).reshape(shape)
    env.room_state = np.array(episode["state"]).reshape(shape)
    env.player_position = np.argwhere(env.room_state == 5)[0]
    env.num_env_steps, env.reward_last, env.boxes_on_target = 0, 0, 0


def text(env):
    cells = np.where((env.room_state == 5) & (env.room_fixed == 2), 6, env.room_state)
    return "\n".join("".join(f" {SIGNS[int(cell)]} \t" for cell in row) for row in cells)


def play(env, episodes, mode, answers=None):
    used, steps = 0.0, 0
    for episode in episodes:
        load(env, episode)
        for action in episode["actions"]:
            start = time.process_time()
            _, reward, done, _ = env.step(action)
            shown = text(env) if mode == "text" else None
            used += time.process_time() - start
            steps += 1
            if answers is not None:
                answers.append([[int(cell) for cell in env.room_state.flatten()], float(reward), bool(done), shown])
    return steps / used


episodes = json.load(sys.stdin)
rows, columns = episodes[0]["rows"], episodes[0]["columns"]
env = SokobanEnv(dim_room=(rows, columns), max_steps=len(episodes[0]["actions"]), num_boxes=1, reset=False)
answers = []
# The package has no text mode: its drawing is left out, and the text is made from its state.
env.render = lambda mode=None: None
text_rate = play(env, episodes, "text", answers)
del env.render
rgb_rate = play(env, episodes, "rgb")
start, rooms, seed = time.process_time(), 0, 0
while time.process_time() - start < 3:
    random.seed(seed)
    np.random.seed(seed)
    seed += 1
    try:
        generate_room(dim=(rows, columns), num_steps=20, num_boxes=1)
        rooms += 1
    except (RuntimeError, RuntimeWarning):
        pass
print(json.dumps({
    "answers": answers,
    "rooms": rooms / (time.process_time() - start),
    "text": text_rate,
    "rgb": rgb_rate,
}))
