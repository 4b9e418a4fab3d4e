"""GPT-2 in PyTorch, and llm.c's files written from it: what llmc is compared with.

Imported by the other scripts. Needs PyTorch only (no numpy, no network).
"""

import array
import ctypes
import dataclasses
import pathlib

import torch
from torch import nn
from torch.nn import functional

CHECKPOINT_MAGIC = 20240326
STATE_MAGIC = 20240327
SHARD_MAGIC = 20240520
DEPTHS = {6: (6, 384), 12: (12, 768), 24: (16, 1024), 36: (20, 1280), 48: (25, 1600)}

# llm.c's name of each parameter and ours, in the order of its checkpoints.
LAYER_PARAMETERS = {
    "ln1w": "ln1.weight", "ln1b": "ln1.bias", "qkvw": "qkv.weight", "qkvb": "qkv.bias",
    "attprojw": "attproj.weight", "attprojb": "attproj.bias",
    "ln2w": "ln2.weight", "ln2b": "ln2.bias", "fcw": "fc.weight", "fcb": "fc.bias",
    "fcprojw": "fcproj.weight", "fcprojb": "fcproj.bias",
}
MATRICES = {"wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw"}


@dataclasses.dataclass
class Config:
    max_sequence: int
    vocabulary: int
    layers: int
    heads: int
    channels: int

    @property
    def padded_vocabulary(self):
        return (self.vocabulary + 127) // 128 * 128

    @classmethod
    def from_depth(cls, depth, vocabulary=50257):
        heads, channels = DEPTHS[depth]
        return cls(1024, vocabulary, depth, heads, channels)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.channels
        self.heads = config.heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attproj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.fcproj = nn.Linear(4 * width, width)

    def attention(self, x):
        batch, sequence, width = x.shape
        q, k, v = (part.view(batch, sequence, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attproj(out.transpose(1, 2).reshape(batch, sequence, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.fcproj(functional.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.channels)
        self.wpe = nn.Embedding(config.max_sequence, config.channels)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.lnf = nn.LayerNorm(config.channels)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.lnf(x), self.wte.weight)

    def loss(self, tokens, targets):
        return functional.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def named_tensors(self):
        """Pairs of llm.c's name and the list of its parameters, one for each layer."""
        yield "wte", [self.wte.weight]
        yield "wpe", [self.wpe.weight]
        for name, path in LAYER_PARAMETERS.items():
            yield name, [block.get_parameter(path) for block in self.blocks]
        yield "lnfw", [self.lnf.weight]
        yield "lnfb", [self.lnf.bias]

    def optimizer_groups(self, weight_decay):
        decayed, plain = [], []
        for name, tensors in self.named_tensors():
            (decayed if name in MATRICES else plain).extend(tensors)
        return [{"params": decayed, "weight_decay": weight_decay},
                {"params": plain, "weight_decay": 0.0}]


@torch.no_grad()
def initialise(model, seed):
    """GPT-2's initialisation, drawn on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensors in model.named_tensors():
        deviation = 0.02
        if name in ("attprojw", "fcprojw"):
            deviation /= (2 * model.config.layers) ** 0.5
        for tensor in tensors:
            if name in MATRICES:
                tensor.copy_(torch.empty(tensor.shape).normal_(0, deviation, generator=generator))
            else:
                tensor.fill_(1.0 if name in ("ln1w", "ln2w", "lnfw") else 0.0)


def tensor_bytes(tensor, dtype):
    tensor = tensor.detach().to("cpu", dtype).contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def header(*values):
    return array.array("i", values + (0,) * (256 - len(values))).tobytes()


def write_tensors(file, model, dtype, gradients=False):
    """Parameters or gradients in llm.c's order, wte padded with zero rows."""
    for name, tensors in model.named_tensors():
        for tensor in tensors:
            file.write(tensor_bytes(tensor.grad if gradients else tensor, dtype))
        if name == "wte":
            padding = model.config.padded_vocabulary - model.config.vocabulary
            file.write(tensor_bytes(torch.zeros(padding, model.config.channels), dtype))


def write_checkpoint(path, model):
    c = model.config
    with open(path, "wb") as file:
        file.write(header(CHECKPOINT_MAGIC, 3, c.max_sequence, c.vocabulary, c.layers, c.heads,
                          c.channels, c.padded_vocabulary))
        write_tensors(file, model, torch.float32)


def write_state(path, model, tokens, targets):
    """llm.c's debug state: a batch, its logits, loss and gradients, which stay in the model."""
    model.zero_grad()
    logits = model(tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    with open(path, "wb") as file:
        file.write(header(STATE_MAGIC, 2, *tokens.shape))
        file.write(tensor_bytes(tokens, torch.int32) + tensor_bytes(targets, torch.int32))
        file.write(tensor_bytes(logits, torch.float32) + tensor_bytes(loss, torch.float32))
        write_tensors(file, model, torch.float32, gradients=True)
    return logits.detach(), loss.detach()


def write_shard(path, tokens):
    with open(path, "wb") as file:
        file.write(header(SHARD_MAGIC, 1, len(tokens)))
        file.write(array.array("H", tokens).tobytes())


def read_floats(file, count):
    values = array.array("f")
    values.fromfile(file, count)
    return torch.frombuffer(values, dtype=torch.float32)


@torch.no_grad()
def read_checkpoint(path):
    with open(path, "rb") as file:
        head = array.array("i")
        head.fromfile(file, 256)
        if head[0] != CHECKPOINT_MAGIC or head[1] != 3:
            raise SystemExit(f"{path}: magic {head[0]}, version {head[1]}; "
                             f"wanted {CHECKPOINT_MAGIC}, 3")
        model = GPT2(Config(head[2], head[3], head[4], head[5], head[6]))
        for name, tensors in model.named_tensors():
            for tensor in tensors:
                tensor.copy_(read_floats(file, tensor.numel()).view(tensor.shape))
            if name == "wte":
                read_floats(file, (head[7] - head[3]) * head[6])
    return model


def read_batch(path):
    """The tokens and targets of a debug state."""
    with open(path, "rb") as file:
        head = array.array("i")
        head.fromfile(file, 256)
        if head[0] != STATE_MAGIC:
            raise SystemExit(f"{path}: magic {head[0]}; wanted {STATE_MAGIC}")
        values = array.array("i")
        values.fromfile(file, 2 * head[2] * head[3])
    return torch.tensor(values, dtype=torch.int64).view(2, head[2], head[3]).unbind()


def checkpoint_beside(state):
    """llm.c's naming: gpt2_124M_debug_state.bin belongs to gpt2_124M.bin."""
    state = pathlib.Path(state)
    return state.with_name(state.name.replace("_debug_state", ""))
