"""The PyTorch side of `cargo xtask bench model`: one measurement, with the checkpoint that the Rust side wrote.

usage: torch_bench.py CASE FOLDER JSON   (JSON: what the Rust side measured; sizes are read from it)

Plain PyTorch as people run it: transformers with scaled-dot-product attention, f32, two threads.
"""
import json, resource, statistics, sys, time

import torch

case, folder, ours = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
name, task = case.split("/")
torch.set_num_threads(2)
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
    print(json.dumps({"tokens": tokens, "seconds": seconds, "peak_mib": peak}))


if name == "logprob":
    tokens, width, vocabulary = ours["shape"]
    hidden = (torch.randn(tokens, width) * 0.05).requires_grad_()
    head = (torch.randn(vocabulary, width) * 0.05).requires_grad_()
    targets = torch.tensor(ids(tokens, vocabulary, 1))[:, None]
    start = time.perf_counter()
    (hidden @ head.t()).log_softmax(-1).gather(1, targets).mean().backward()
    report(tokens, time.perf_counter() - start)
    sys.exit()

from transformers import AutoModelForCausalLM, DynamicCache

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
