"""Small modules of PyTorch, as people write them: for tests/reference/import.py and bench/import."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.drop = nn.Dropout(0.1)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x))))


class CNN(nn.Module):
    """Pictures, batch norm, a flatten before a dense layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 3, 3, stride=2)
        self.fc = nn.Linear(3 * 2 * 3, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(x))), 2)
        x = F.relu(self.conv2(x))
        return self.fc(torch.flatten(x, 1))


class LayerNorm(nn.Module):
    def __init__(self, n, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.bias = nn.Parameter(torch.zeros(n)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, n, heads, bias, flash):
        super().__init__()
        self.c_attn = nn.Linear(n, 3 * n, bias=bias)
        self.c_proj = nn.Linear(n, n, bias=bias)
        self.attn_dropout = nn.Dropout(0.1)
        self.resid_dropout = nn.Dropout(0.1)
        self.n_head, self.n_embd, self.flash = heads, n, flash
        if not flash:
            self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-1)
            att = self.attn_dropout(att)
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class FeedForward(nn.Module):
    def __init__(self, n, bias):
        super().__init__()
        self.c_fc = nn.Linear(n, 4 * n, bias=bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * n, n, bias=bias)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = self.c_fc(x)
        x = self.gelu(x)
        x = self.c_proj(x)
        return self.dropout(x)


class Block(nn.Module):
    def __init__(self, n, heads, bias, flash):
        super().__init__()
        self.ln_1 = LayerNorm(n, bias)
        self.attn = CausalSelfAttention(n, heads, bias, flash)
        self.ln_2 = LayerNorm(n, bias)
        self.mlp = FeedForward(n, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    """As nanoGPT: tied embedding, positions, blocks; flash or masked by a buffer."""

    def __init__(self, words=11, length=6, n=8, heads=2, depth=3, bias=True, flash=True):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(words, n), wpe=nn.Embedding(length, n), drop=nn.Dropout(0.1),
                                              h=nn.ModuleList([Block(n, heads, bias, flash) for _ in range(depth)]), ln_f=LayerNorm(n, bias)))
        self.lm_head = nn.Linear(n, words, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        tok_emb = self.transformer.wte(idx)
        pos_emb = self.transformer.wpe(pos)
        x = self.transformer.drop(tok_emb + pos_emb)
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        return self.lm_head(x)


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                                  nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """A class for every pixel; skips by cat, one way up transposed, one bilinear."""

    def __init__(self, n=4, classes=3):
        super().__init__()
        self.inc = DoubleConv(3, n)
        self.down1 = DoubleConv(n, 2 * n)
        self.down2 = DoubleConv(2 * n, 4 * n)
        self.pool = nn.MaxPool2d(2)
        self.up1 = nn.ConvTranspose2d(4 * n, 2 * n, 2, stride=2)
        self.conv1 = DoubleConv(4 * n, 2 * n)
        self.up2 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv2 = DoubleConv(3 * n, n)
        self.outc = nn.Conv2d(n, classes, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(self.pool(x1))
        x3 = self.down2(self.pool(x2))
        x = self.conv1(torch.cat([x2, self.up1(x3)], dim=1))
        x = self.conv2(torch.cat([x1, self.up2(x)], dim=1))
        return self.outc(x)


class Encoder(nn.Module):
    """torch.nn's own transformer and attention."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu"), 2, enable_nested_tensor=False)
        self.cls = nn.Parameter(torch.randn(1, 1, 8))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), self.embed(x)], dim=1)
        return self.head(self.layers(x)[:, 0])


class Mixed(nn.Module):
    """What stands in forward: einsum, permute, functional calls, buffers, a module that is used twice, 1-D convolutions."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3, padding=1)
        self.norm = nn.GroupNorm(2, 6)
        self.twice = nn.Linear(7, 7)
        self.scale = nn.Parameter(torch.tensor([0.5, 1.5, 2.5, 1.0, 0.7, 0.9]).view(6, 1))
        self.register_buffer("window", torch.hann_window(7, periodic=False) + 0.1)
        self.mix = nn.Parameter(torch.randn(2, 6))

    def forward(self, x):
        x = F.silu(self.norm(self.conv(x))) * self.scale
        x = self.twice(torch.tanh(self.twice(x))) * self.window
        y = torch.einsum("bcl,kc->bkl", x, self.mix)
        z = y.permute(0, 2, 1).reshape(x.shape[0], -1)
        return torch.cat([z, x.mean(dim=(1, 2)).unsqueeze(1), x.amax(dim=2)], dim=1)


class Grower(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.fc = nn.Linear(n, 2)
        self.drop = nn.Dropout(0.2)

    def forward(self, parts):
        x = torch.cat(parts, dim=-1)
        return F.hardswish(self.fc(self.drop(self.norm(x))))


class Grown(nn.Module):
    """A list of features that grows, as in DenseNet; slices that are changed in place; a padded vocabulary; a residual of what is dropped."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4, padding_idx=0)
        self.layers = nn.ModuleDict({f"grow{i + 1}": Grower(4 + 2 * i) for i in range(3)})
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(10, 10)

    def forward(self, words):
        x = self.embed(words)
        parts = [x]
        for layer in self.layers.values():
            parts.append(layer(parts))
        x = torch.cat(parts, dim=-1)
        x = x + self.fc(self.drop(x))
        x = x.clone()
        x[..., 2:4] *= 3
        mask = torch.zeros(words.shape[1], words.shape[1])
        mask[1:, :1] = -2.5
        return (x.transpose(1, 2) @ mask.type_as(x)).amax(dim=1) + x.roll(1, 1)[..., 0]


class Recurrent(nn.Module):
    """Layers and directions, steps in front within, no biases, a state that is learned, last states that are used."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.gru = nn.GRU(6, 5, bias=False)
        self.begin = nn.Parameter(torch.randn(2, 1, 4))
        self.rnn = nn.RNN(5, 4, nonlinearity="relu", batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(4, 2)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        steps, last = self.gru(y.transpose(0, 1))
        y, states = self.rnn(steps.transpose(0, 1), self.begin.expand(-1, x.shape[0], -1))
        h, c = self.cell(x[:, 0], (states[0, :, :2], c[2, :, :2]))
        return torch.cat([y[:, -1], states.transpose(0, 1).flatten(1), last[0], h, c], dim=1)


def pictures(channels, h, w):
    return lambda n: (torch.randn(n, channels, h, w),)


def words(count, length):
    return lambda n: (torch.randint(0, count, (n, length)),)


MODELS = {
    "MLP": (MLP, lambda n: (torch.randn(n, 6),)),
    "CNN": (CNN, pictures(2, 10, 14)),
    "GPT": (GPT, words(11, 6)),
    "GPT, masked by a buffer": (lambda: GPT(bias=False, flash=False), words(11, 6)),
    "U-Net": (UNet, pictures(3, 8, 12)),
    "encoder of torch.nn": (Encoder, lambda n: (torch.randn(n, 6, 5),)),
    "grown": (Grown, words(9, 5)),
    "recurrent": (Recurrent, lambda n: (torch.randn(n, 5, 4),)),
    "mixed": (Mixed, lambda n: (torch.randn(n, 3, 7),)),
}
LOSSES = {"CNN": "cross_entropy", "encoder of torch.nn": "cross_entropy"}  # of those whose outputs are of classes, which nothing says
