# Plays the walks on stdin with the official WebShop text environment; prints its pages and its speed as one line of JSON.
#
# Needs the environment's own sources (a checkout of princeton-nlp/WebShop) and, in this interpreter: pyserini (with its
# Java archive), spacy with an English model, thefuzz, flask, beautifulsoup4, gym. What it imports without using is replaced
# by empty modules.
import glob
import importlib.abc
import importlib.machinery
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import types
from unittest.mock import MagicMock

job = json.load(sys.stdin)
out, sys.stdout = sys.stdout, sys.stderr  # the environment prints on its own


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    NAMES = {"torch", "transformers", "faiss", "pandas", "sklearn", "selenium", "rank_bm25", "ray", "scipy",
             "sentencepiece", "onnxruntime", "lightgbm", "nmslib", "cleantext", "requests_mock", "datasets"}

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda key: MagicMock(name=key)
        module.__path__ = []
        module.__version__ = "0.0"
        return module

    def exec_module(self, module):
        pass


import spacy  # noqa: E402

sys.meta_path.insert(0, Unused())

if job.get("model"):
    model = importlib.import_module(job["model"])
    spacy.load = lambda name, **rest: model.load(**rest)
import rich.style  # noqa: E402,F401  its first import draws from the global generator

# The environment looks for its data and its index beside its sources: a copy of them with ours.
folder = tempfile.mkdtemp(prefix="webshop-peer-")
subprocess.run(["cp", "-r", os.path.join(job["official"], "web_agent_site"), folder], check=True)
os.makedirs(os.path.join(folder, "data"))
os.makedirs(os.path.join(folder, "search_engine"))
sys.path.insert(0, folder)
import web_agent_site.utils as settings  # noqa: E402

settings.DEFAULT_FILE_PATH = job["products"]
settings.DEFAULT_ATTR_PATH = job["attributes"]
settings.HUMAN_ATTR_PATH = job["human"]

wall, cpu = time.time(), time.process_time()
from web_agent_site.engine import engine  # noqa: E402

products, *_ = engine.load_products(filepath=job["products"], human_goals=False)
texts = os.path.join(folder, "texts")
os.makedirs(texts)
with open(os.path.join(texts, "documents.jsonl"), "w") as file:
    for product in products:
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product["options"].items())
        parts = [product["Title"], product["Description"], product["BulletPoints"][0], options]
        line = {"id": product["asin"], "contents": " ".join(parts).lower(), "product": product}
        file.write(json.dumps(line) + "\n")
import pyserini  # noqa: E402

archive = glob.glob(os.path.join(os.path.dirname(pyserini.__file__), "resources/jars/*.jar"))[0]
for name in ["indexes", "indexes_1k"]:
    if name == "indexes_1k":
        os.symlink("indexes", os.path.join(folder, "search_engine", name))
        continue
    subprocess.run(
        ["java", "-cp", archive, "io.anserini.index.IndexCollection", "-collection", "JsonCollection",
         "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-storePositions", "-storeDocvectors",
         "-storeRaw", "-input", texts, "-index", os.path.join(folder, "search_engine", name)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
index_seconds = time.time() - wall

wall, cpu = time.time(), time.process_time()
from web_agent_site.envs.web_agent_text_env import WebAgentTextEnv  # noqa: E402

random.seed(job["seed"])
env = WebAgentTextEnv(
    observation_mode="text", file_path=job["products"], num_products=None, human_goals=False)
load = {"cpu": time.process_time() - cpu, "wall": time.time() - wall}

answers, steps, resets = [], 0, 0
step_cpu = step_wall = 0.0
for walk in job["walks"]:
    env.reset(session=walk["goal"])
    said = [[env.observation, env.get_available_actions()["clickables"], 0.0]]
    cpu, wall = time.process_time(), time.time()
    for action in walk["actions"]:
        observation, reward, done, _ = env.step(action)
        available = env.get_available_actions()
        said.append([observation, available["clickables"], float(reward)])
        steps += 1
    step_cpu += time.process_time() - cpu
    step_wall += time.time() - wall
    answers.append(said)

searcher = env.server.search_engine
cpu, wall = time.process_time(), time.time()
for query in job["queries"]:
    searcher.search(query, k=50)
search = {"cpu": (time.process_time() - cpu) / max(len(job["queries"]), 1),
          "wall": (time.time() - wall) / max(len(job["queries"]), 1)}
with open("/proc/self/status") as file:
    resident = [int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:")][0]
subprocess.run(["rm", "-rf", folder], check=False)
print(json.dumps({
    "answers": answers, "steps_per_cpu_second": steps / step_cpu, "steps_per_second": steps / step_wall, "load": load,
    "index_seconds": index_seconds, "search": search, "resident": resident,
}), file=out)
