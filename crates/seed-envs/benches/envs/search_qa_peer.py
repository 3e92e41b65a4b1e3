"""Runs bm25s over the passages and queries that the benchmark names, and tells its times and its rankings."""

import json
import sys
import time

import bm25s
import Stemmer

task = json.load(sys.stdin)
passages, ids = [], []
for path in task["corpus"]:
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            passages.append(row["contents"])
            ids.append(row["id"])

stem = task["stem"]
options = (
    {"stopwords": "en", "stemmer": Stemmer.Stemmer("english")}
    if stem
    else {"stopwords": None, "stemmer": None, "token_pattern": r"(?u)\w+"}
)
wall, cpu = time.perf_counter(), time.process_time()
index = bm25s.BM25(method="lucene", k1=1.5 if stem else 0.9, b=0.75 if stem else 0.4)
index.index(bm25s.tokenize(passages, show_progress=False, **options), show_progress=False)
index_wall, index_cpu = time.perf_counter() - wall, time.process_time() - cpu

queries, k = task["queries"], min(task["k"], len(passages))
wall, cpu = time.perf_counter(), time.process_time()
tokens = bm25s.tokenize(queries, show_progress=False, return_ids=False, **options)
found, scores = index.retrieve(tokens, k=k, n_threads=0, show_progress=False)
query_wall, query_cpu = time.perf_counter() - wall, time.process_time() - cpu
top = [[ids[int(place)] for place, score in zip(*row) if score > 0] for row in zip(found, scores)]
print(
    json.dumps(
        {
            "index_wall": index_wall,
            "index_cpu": index_cpu,
            "query_wall": query_wall,
            "query_cpu": query_cpu,
            "top": top,
        }
    )
)
