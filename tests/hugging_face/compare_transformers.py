#!/usr/bin/env python3
"""Compares llmc with `transformers` on randomly initialised GPT-2s, in FP32:

- gpt2_verify on a folder that transformers wrote: logits, loss and gradients, against transformers in
  float64;
- the same model in several files, in halves, and as a model without a head;
- what gpt2_export writes: transformers loads it, with the same parameters to the bit;
- ten steps of fine-tuning: the losses of gpt2_train and of torch's AdamW, without dropout, and the
  model that comes out.

Needs torch, transformers and safetensors (pip install torch transformers). Run on the CPU, or with
--backend cuda:

    compare_transformers.py --programs build/ci/examples --work /tmp/compare
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples/gpt2_trainer/compare"))
import gpt2_pytorch as llm_c  # noqa: E402

SIZES = {"tiny": (2, 2, 32, 48, 300), "small": (3, 4, 96, 64, 1000),
         "124M": (12, 12, 768, 1024, 50257)}
LOSS_TOLERANCE = 1e-5
BETAS, EPSILON, RATE, DECAY = (0.9, 0.95), 1e-8, 1e-4, 0.1
failures = []


def check(name, ok, seen):
    print(f"{'OK    ' if ok else 'NOT OK'} {name}: {seen}", flush=True)
    if not ok:
        failures.append(name)


def relative(actual, expected):
    actual, expected = actual.double(), expected.double()
    return ((actual - expected).norm() / expected.norm()).item()


def make_model(size, seed):
    layers, heads, channels, context, vocabulary = SIZES[size]
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(
        n_layer=layers, n_head=heads, n_embd=channels, n_positions=context, vocab_size=vocabulary,
        embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0))
    with torch.no_grad():  # else biases are 0 and the scales of layernorms 1, whatever reads them
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "ln_" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def as_llm_c(model):
    """The same parameters in the model whose files llm_c writes."""
    c = model.config
    twin = llm_c.GPT2(llm_c.Config(c.n_positions, c.vocab_size, c.n_layer, c.n_head, c.n_embd))
    names = {"ln1": "ln_1", "qkv": "attn.c_attn", "attproj": "attn.c_proj", "ln2": "ln_2",
             "fc": "mlp.c_fc", "fcproj": "mlp.c_proj"}
    twin.wte, twin.wpe, twin.lnf = (model.transformer.wte, model.transformer.wpe,
                                    model.transformer.ln_f)
    for ours, theirs in zip(twin.blocks, model.transformer.h):
        for name, path in names.items():
            source, target = theirs.get_submodule(path), ours.get_submodule(name)
            turned = source.weight.T if source.weight.dim() == 2 else source.weight
            target.weight = torch.nn.Parameter(turned.contiguous())
            target.bias = torch.nn.Parameter(source.bias)
            if source.weight.grad is not None:
                target.weight.grad = (source.weight.grad.T if source.weight.dim() == 2
                                      else source.weight.grad)
                target.bias.grad = source.bias.grad
    return twin


def write_state(path, model, tokens, targets):
    """llm.c's debug state of what transformers computes in float64."""
    model.double()
    model.zero_grad()
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    with open(path, "wb") as file:
        file.write(llm_c.header(llm_c.STATE_MAGIC, 2, *tokens.shape))
        file.write(llm_c.tensor_bytes(tokens, torch.int32))
        file.write(llm_c.tensor_bytes(targets, torch.int32))
        file.write(llm_c.tensor_bytes(logits, torch.float32))
        file.write(llm_c.tensor_bytes(loss, torch.float32))
        llm_c.write_tensors(file, as_llm_c(model), torch.float32, gradients=True)
    model.zero_grad()
    model.float()


class Programs:
    def __init__(self, folder, backend):
        self.folder, self.backend = folder, backend

    def run(self, name, *arguments):
        where = {"gpt2_export": "gpt2_export"}.get(name, "gpt2_trainer")
        words = [str(word) for word in (self.folder / where / name, *arguments)]
        if name != "gpt2_export":
            words += ["--backend", self.backend]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode not in (0, 1) or (done.returncode == 1 and name != "gpt2_verify"):
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        return done

    def verify(self, state, checkpoint, tolerance):
        done = self.run("gpt2_verify", state, "--checkpoint", checkpoint, "--precision", "ieee",
                        "--relative", tolerance, "--worst", tolerance)
        worst = {line.split()[0]: float(line.split()[2]) for line in done.stdout.splitlines()
                 if line.endswith("OK") and len(line.split()) > 4}
        return worst


def compare_reading(programs, work, size, model, tokens, targets):
    state = work / "debug_state.bin"
    write_state(state, model, tokens, targets)
    folder = work / "saved"
    model.save_pretrained(folder)
    errors = programs.verify(state, folder, 1e-5)
    check(f"{size}: logits within 1e-5 of transformers in float64", errors["logits"] <= 1e-5,
          f"{errors['logits']:.2e}")
    check(f"{size}: loss within 1e-6", errors["loss"] <= 1e-6, f"{errors['loss']:.2e}")
    gradients = max(error for name, error in errors.items() if name not in ("logits", "loss"))
    check(f"{size}: gradients within 2e-5", gradients <= 2e-5, f"{gradients:.2e}")

    plain = work / "without_head"
    model.transformer.save_pretrained(plain)
    same = programs.verify(state, plain, 1e-5) == errors
    check(f"{size}: a model without a head, whose names have no prefix", same, "the same errors")
    shards = work / "shards"
    model.save_pretrained(shards, max_shard_size="100MB" if size == "124M" else "50KB")
    count = len(list(shards.glob("model-*.safetensors")))
    check(f"{size}: in {count} files", count > 1 and programs.verify(state, shards, 1e-5) == errors,
          "the same errors")


def same_parameters(a, b):
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def compare_writing(programs, work, size, model, tokens):
    folder = work / "exported"
    programs.run("gpt2_export", work / "saved", folder)
    loaded, problems = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    nothing = not any(problems.values())
    check(f"{size}: transformers loads what gpt2_export writes", nothing, problems)
    check(f"{size}: with the same parameters", same_parameters(loaded, model), "to the bit")
    with torch.no_grad():
        same = torch.equal(loaded.eval()(tokens).logits, model(tokens).logits)
    check(f"{size}: and logits", same, "to the bit")
    headless = GPT2Model.from_pretrained(folder)
    check(f"{size}: and without its head", same_parameters(headless, model.transformer),
          "to the bit")
    binary = work / "exported.bin"
    programs.run("gpt2_export", work / "saved", binary)
    llm_c.write_checkpoint(work / "wanted.bin", as_llm_c(model))
    same = binary.read_bytes() == (work / "wanted.bin").read_bytes()
    check(f"{size}: llm.c's checkpoint is the one that PyTorch writes", same, "to the byte")
    programs.run("gpt2_export", binary, work / "back")
    same = (work / "back/model.safetensors").read_bytes() == \
        (folder / "model.safetensors").read_bytes()
    check(f"{size}: and back", same, "to the byte")

    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).split(".")[1]
        model.to(dtype).save_pretrained(work / name)
        wanted = GPT2LMHeadModel.from_pretrained(work / name, dtype=torch.float32)
        programs.run("gpt2_export", work / name, work / f"from_{name}")
        got = GPT2LMHeadModel.from_pretrained(work / f"from_{name}")
        check(f"{size}: from {name}", same_parameters(got, wanted), "to the bit")


def torch_losses(model, batches):
    decayed = [p for p in model.parameters() if p.dim() == 2]
    plain = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY},
                                   {"params": plain, "weight_decay": 0.0}],
                                  lr=RATE, betas=BETAS, eps=EPSILON)
    losses = []
    model.train()  # its rates of dropout are 0
    for tokens, targets in batches:
        logits = model(tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare_training(programs, work, size, batch, sequence, steps):
    vocabulary = SIZES[size][4]
    stream = torch.randint(vocabulary, (batch * sequence * steps + 1,),
                           generator=torch.Generator().manual_seed(3))
    llm_c.write_shard(work / "train.bin", stream.tolist())
    batches = list(zip(stream[:-1].view(steps, batch, sequence), stream[1:].view(steps, batch,
                                                                                sequence)))
    log = work / "log.json"
    log.unlink(missing_ok=True)
    programs.run("gpt2_train", "--checkpoint", work / "saved", "--data", work / "train.bin",
                 "--order", "sequential", "-b", batch, "-t", sequence, "--steps", steps,
                 "--lr", RATE, "--schedule", "constant", "--warmup", 0, "--weight-decay", DECAY,
                 "--beta1", BETAS[0], "--beta2", BETAS[1], "--precision", "ieee",
                 "--sample-every", 0, "--val-every", 0, "--out", work / "run", "--log", log)
    ours = [json.loads(line)["loss"] for line in log.read_text().splitlines()
            if '"gradient_norm"' in line]
    model = GPT2LMHeadModel.from_pretrained(work / "saved")
    theirs = torch_losses(model, batches)
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print(f"       losses {' '.join(f'{loss:.6f}' for loss in ours)}")
    print(f"       torch  {' '.join(f'{loss:.6f}' for loss in theirs)}")
    check(f"{size}: {steps} losses of fine-tuning within {LOSS_TOLERANCE}",
          len(ours) == steps and worst <= LOSS_TOLERANCE, f"{worst:.2e}")
    programs.run("gpt2_export", work / "run", work / "tuned")
    tuned = GPT2LMHeadModel.from_pretrained(work / "tuned").eval()
    with torch.no_grad():
        tokens = batches[0][0]
        error = relative(tuned(tokens).logits, model.eval()(tokens).logits)
    check(f"{size}: logits of the model that came out within 1e-4", error <= 1e-4, f"{error:.2e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True,
                        help="the folder examples of a build")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a new folder")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small"], choices=SIZES)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    programs = Programs(options.programs, options.backend)
    for size in options.sizes:
        work = options.work / size
        work.mkdir(parents=True)
        model = make_model(size, 1)
        batch, sequence = (1, 64) if size == "124M" else (3, SIZES[size][3])
        tokens = torch.randint(SIZES[size][4], (2, batch, sequence),
                               generator=torch.Generator().manual_seed(2))
        compare_reading(programs, work, size, model, *tokens)
        compare_writing(programs, work, size, model, tokens[0])
        compare_training(programs, work, size, batch, sequence, 10)
    print(f"{len(failures)} NOT OK" if failures else "all OK")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
