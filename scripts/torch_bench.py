"""The PyTorch side of `cargo xtask bench model`: one measurement, with the checkpoint that the Rust side wrote.

usage: torch_bench.py CASE FOLDER JSON   (JSON: what the Rust side measured; sizes are read from it)

Plain PyTorch as people run it: transformers with scaled-dot-product attention, f32, as many threads as the Rust side.
"""
import json, os, pathlib, resource, statistics, sys, time

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, DynamicCache

case, folder, ours = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
name, task = case.split("/")
torch.set_num_threads(len(os.sched_getaffinity(0)))
START = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
torch.manual_seed(0)


def ids(count, vocabulary, salt):
    return [(((i + salt * 7919) * 2654435761) >> 7) % vocabulary for i in range(count)]


def median(work):
    work()
    start, times = time.perf_counter(), []
    while len(times) < 3 or (time.perf_counter() - start < 2.0 and len(times) < 40):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def report(tokens, seconds):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"tokens": tokens, "seconds": seconds, "peak_mib": peak, "start_mib": START}))


if name == "logprob":
    tokens, width, vocabulary = ours["shape"]
    hidden = (torch.randn(tokens, width) * 0.05).requires_grad_()
    head = (torch.randn(vocabulary, width) * 0.05).requires_grad_()
    targets = torch.tensor(ids(tokens, vocabulary, 1))[:, None]
    start = time.perf_counter()
    (hidden @ head.t()).log_softmax(-1).gather(1, targets).mean().backward()
    report(tokens, time.perf_counter() - start)
    sys.exit()

if name == "minilm":
    # As sentence-transformers does it: sorted by length, padded batches of 32, mean over the mask, length 1.
    folder, data = ours["folder"], pathlib.Path(ours["data"])
    rows = {}
    for file in ("wiki18_mini.jsonl", "multihop_mini.jsonl"):
        for line in open(data / file):
            row = json.loads(line)
            rows[row["id"]] = row["contents"]
    texts = [rows[i] for i in json.load(open(data / "dense_subset.json"))]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def encode(texts):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = [None] * len(texts)
        for at in range(0, len(order), 32):
            some = order[at : at + 32]
            batch = tokenizer([texts[i] for i in some], padding=True, truncation=True, max_length=256, return_tensors="pt")
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None].float()
            pooled = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
            for i, vector in zip(some, pooled):
                vectors[i] = vector
        return torch.stack(vectors)

    encode(texts[:64])
    begin = time.perf_counter()
    encode(texts)
    report(len(texts), time.perf_counter() - begin)
    sys.exit()

model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
vocabulary = model.config.vocab_size
rows, length, steps = ours["rows"], ours["length"], ours["steps"]
batch = torch.tensor([ids(length, vocabulary, row) for row in range(rows)])


def logp():
    logits = model(batch[:, :-1], use_cache=False).logits
    return logits.log_softmax(-1).gather(2, batch[:, 1:, None])


if task == "forward":
    with torch.no_grad():
        report(rows * length, median(lambda: logp().sum().item()))
elif task == "train":
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        loss = -logp().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    report(rows * length, median(step))
elif task == "prefill":
    with torch.no_grad():
        report(rows * length, median(lambda: model(batch, use_cache=True, logits_to_keep=1)))
else:
    with torch.no_grad():
        cache = DynamicCache(config=model.config)
        model(batch, past_key_values=cache, use_cache=True, logits_to_keep=1)

        def decode():
            last = torch.ones(rows, 1, dtype=torch.long)
            for _ in range(steps):
                logits = model(last, past_key_values=cache, use_cache=True).logits[:, -1]
                last = torch.multinomial(logits.softmax(-1), 1)
                last.tolist()
            cache.crop(-steps)

        report(rows * steps, median(decode))
