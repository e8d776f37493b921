#!/usr/bin/env python3
"""Do others compute of what `export` wrote what the model computes? Called by tests/export_families.test: needs torch, transformers and numpy; for GGUF
llama_cpp.

    exported.py hf NAME ...                   for each NAME transformers' model of NAME.hf, in f64, of token.npy, segment.npy or picture.npy: NAME.npy to
                                              1e-10 of the largest value
    exported.py gguf FILE.gguf VALUES.npy TOKENS.npy [TOKENIZER.json TEXT]
                                              llama.cpp's logits of the tokens, in f32: 1e-3; it makes the same tokens of the text, and the text of them
"""
import json
import pathlib
import sys

import numpy as np

FAMILIES = pathlib.Path(__file__).parent / "weights/families"
WORDS = {name: np.load(FAMILIES / f"{name}.npy") for name in ("token", "segment", "picture")}


def off(got, expected):
    return abs(got - expected).max() / abs(expected).max() if got.shape == expected.shape else f"{got.shape}, not {expected.shape}"


def hf(folder, expected):
    import torch
    import transformers

    class Double:
        """torch, for modules that compute norms and rotations in f32 whatever the model's type is"""
        float = float32 = torch.float64

        def __getattr__(self, name):
            return getattr(torch, name)

    config = json.loads(pathlib.Path(folder, "config.json").read_text())
    kind = config["model_type"]
    model, info = getattr(transformers, config["architectures"][0]).from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    wrong = {k: v for k, v in info.items() if v and k != "error_msgs"}
    if wrong:
        return f"loading says {wrong}"
    model.eval()
    token = torch.tensor(WORDS["token"]).long()
    with torch.no_grad():
        if kind in ("vit", "resnet", "convnext"):
            how = json.loads(pathlib.Path(folder, "preprocessor_config.json").read_text())
            picture = torch.tensor(WORDS["picture"]).double() / 255
            exact = (picture - torch.tensor(how["image_mean"], dtype=torch.float64)) / torch.tensor(how["image_std"], dtype=torch.float64)
            seen = transformers.AutoImageProcessor.from_pretrained(folder)(list(WORDS["picture"]), return_tensors="pt")["pixel_values"]
            if abs(seen.permute(0, 2, 3, 1) - exact).max() > 1e-5:
                return "its image processor makes another picture"
            return off(model(exact.double().permute(0, 3, 1, 2)).logits.numpy(), expected)
        if kind == "bert":
            return off(model(token, attention_mask=(token != config["pad_token_id"]).double(), token_type_ids=torch.tensor(WORDS["segment"]).long()).prediction_logits.numpy(), expected)
        if kind != "gpt2":
            module = sys.modules[type(model).__module__]
            module.torch, torch.Tensor.float, rotary = Double(), torch.Tensor.double, model.model.rotary_emb
            theta, d = model.config.rope_parameters["rope_theta"], config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
            rotary.inv_freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        return off(model(token).logits.numpy(), expected)


def opened(path):
    import llama_cpp
    return llama_cpp.Llama(path, n_ctx=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)      # keys and values in f32


def greedy(path, begin, count):
    model, said = opened(path), []
    model.eval([int(t) for t in begin])
    for _ in range(count):
        said.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        model.eval(said[-1:])
    return said


def gguf(path, expected, rest):
    model, worst = opened(path), 0.0
    for row, values in zip(np.load(rest[0]), expected):
        model.reset()
        model.eval([int(t) for t in row])
        worst = max(worst, abs(np.array(model.scores[:len(row)]) - values).max())
    if len(rest) > 1:
        import tokenizers
        text = pathlib.Path(rest[2]).read_bytes()
        theirs, its = tokenizers.Tokenizer.from_file(rest[1]).encode(text.decode()).ids, model.tokenize(text, add_bos=False, special=True)
        if theirs != its:
            return f"other tokens: {its[:40]}, not {theirs[:40]}"
    return worst


def main():
    def says(name, worst, bound):
        good = not isinstance(worst, str) and worst <= bound
        print(f"ok {name}" if good else f"not ok {name}: off by {worst}")

    if sys.argv[1] == "hf":
        for name in sys.argv[2:]:
            says(f"{name} in transformers", hf(f"{name}.hf", np.load(f"{name}.npy")), 1e-10)
    else:
        path, values = sys.argv[2:4]
        says("", gguf(path, np.load(values), sys.argv[4:]), 1e-3)


if __name__ == "__main__":
    main()
