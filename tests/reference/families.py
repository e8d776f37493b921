#!/usr/bin/env python3
"""Weights as families of models are published, small and with random values: tests/reference/weights/families/, read by tests/formats.test.

    python3 tests/reference/families.py    needs torch, torchvision, transformers, timm, keras, gguf, numpy and safetensors; the test needs none

NAME.safetensors (or .gguf, .pt, .weights.h5, .keras, .h5) has the names and shapes that the library named writes, NAME.npy what its own code computes of token.npy or
picture.npy in f64, with the same values.
"""
import gzip
import os
import pathlib
import zipfile

os.environ["KERAS_BACKEND"] = "torch"
import gguf
import keras
import keras_models
import numpy as np
import timm
import torch
import torchvision.models as tv
import transformers as hf
from safetensors.torch import load_file, save_file

OUT = pathlib.Path(__file__).parent / "weights/families"
TOKEN = 7 * np.arange(2 * 6).reshape(2, 6) % 31
SEGMENT = np.arange(2 * 6).reshape(2, 6) // 3 % 2
PICTURE = (37 * np.arange(2 * 32 * 32 * 3) % 251).astype(np.uint8).reshape(2, 32, 32, 3)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def filled(model):
    torch.manual_seed(3)
    for name, t in model.state_dict().items():
        if t.dtype.is_floating_point:
            scale = torch.randn(t.shape) * 0.3 + (name.endswith("weight") and t.dim() == 1)
            t.copy_((torch.rand(t.shape) + 0.5 if name.endswith("running_var") else scale).half())       # few digits, to be packed well
    return model.eval()


def seen(mean=IMAGENET[0], deviation=IMAGENET[1]):
    x = torch.tensor(PICTURE).double().permute(0, 3, 1, 2) / 255
    mean, deviation = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (mean, deviation))
    return (x - mean) / deviation


def save(name, model, tensors, compute):
    """tensors of f16: all values are numbers of that type"""
    if tensors is not None:
        save_file({k: (v.half() if v.dtype.is_floating_point else v).clone().contiguous() for k, v in tensors.items()}, OUT / f"{name}.safetensors")
    with torch.no_grad():
        np.save(OUT / f"{name}.npy", compute(model.double()).numpy())
    print(name)


def published(model):
    """what save_pretrained writes: published names, tied tensors once"""
    model.save_pretrained("/tmp/published")
    return load_file("/tmp/published/model.safetensors")


class Double:
    """torch, for modules that compute norms and rotations in f32 whatever the model's type is"""
    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def causal(name, model, tensors=True, module=None):
    def compute(m):
        if module:
            module.torch, torch.Tensor.float, rotary = Double(), torch.Tensor.double, m.model.rotary_emb
            theta, d = m.config.rope_parameters["rope_theta"], m.config.hidden_size // m.config.num_attention_heads
            rotary.inv_freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        return m(torch.tensor(TOKEN)).logits
    save(name, model, published(model) if tensors else None, compute)


def llama(kind, config, **more):
    return filled(kind(config(vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                              num_key_value_heads=2, max_position_embeddings=64, **more)))


def write_gguf(name, model):
    def pairs(w, heads):                                               # LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py
        return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
             "model.layers": "blk"}
    w = gguf.GGUFWriter(OUT / f"{name}.gguf", "llama")
    w.add_head_count(4)
    w.add_head_count_kv(2)
    for k, v in published(model).items():
        v = v.numpy()
        if "q_proj" in k or "k_proj" in k:
            v = pairs(v, 4 if "q_proj" in k else 2)
        for theirs, its in names.items():
            k = k.replace(theirs, its)
        w.add_tensor(k, v.astype(np.float32 if v.ndim == 1 else np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_bert(name, model):
    """By the names that the gguf package has for modules of transformers; the file has no pooler, as llama.cpp has none."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 2)
    w = gguf.GGUFWriter(OUT / f"{name}.gguf", "bert")
    for k, v in model.state_dict().items():
        w.add_tensor(names.get_name(k, try_suffixes=(".weight", ".bias")), v.numpy().astype(np.float32 if v.ndim == 1 else np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def language_models():
    gpt2 = filled(hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=8, n_head=2, n_layer=2, vocab_size=31, n_positions=1024, resid_pdrop=0)))
    causal("gpt2", gpt2)
    model = llama(hf.LlamaForCausalLM, hf.LlamaConfig, rms_norm_eps=1e-5)
    causal("llama", model, module=hf.models.llama.modeling_llama)
    write_gguf("llama-gguf", model)
    causal("llama-gguf", model, False, hf.models.llama.modeling_llama)
    causal("qwen2", llama(hf.Qwen2ForCausalLM, hf.Qwen2Config, tie_word_embeddings=True, rms_norm_eps=1e-6, rope_parameters={"rope_theta": 1e6, "rope_type": "default"}),
           module=hf.models.qwen2.modeling_qwen2)
    bert = filled(hf.BertForPreTraining(hf.BertConfig(vocab_size=31, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)))
    first = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in published(bert).items()}
    token = torch.tensor(TOKEN)
    save("bert", bert, first, lambda m: m(token, attention_mask=(token != 0).double(), token_type_ids=torch.tensor(SEGMENT)).prediction_logits)
    encoder = filled(hf.BertModel(bert.config, add_pooling_layer=False))
    write_bert("bert-gguf", encoder)
    save("bert-gguf", encoder, None, lambda m: m(token, attention_mask=(token != 0).double(), token_type_ids=torch.tensor(SEGMENT)).last_hidden_state)


def vision_models():
    vit = filled(tv.vision_transformer.VisionTransformer(32, 16, 2, 2, 8, 16, num_classes=10))
    save("vit-torchvision", vit, vit.state_dict(), lambda m: m(seen()))
    vit = filled(hf.ViTForImageClassification(hf.ViTConfig(image_size=32, patch_size=16, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                                                           intermediate_size=16, num_labels=10)))
    save("vit-hf", vit, published(vit), lambda m: m(seen((0.5,) * 3, (0.5,) * 3)).logits)
    save("vit-hf5", vit, {k: v.float() for k, v in vit.state_dict().items()}, lambda m: m(seen((0.5,) * 3, (0.5,) * 3)).logits)
    vit = filled(timm.models.VisionTransformer(32, 16, embed_dim=8, depth=2, num_heads=2, mlp_ratio=2, num_classes=10))
    save("vit-timm", vit, vit.state_dict(), lambda m: m(seen()))
    resnet = filled(hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=2, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 2], num_labels=10)))
    save("resnet-hf", resnet, published(resnet), lambda m: m(seen()).logits)
    resnet = filled(hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=2, hidden_sizes=[2, 4, 8, 16], depths=[1, 1, 1, 2], layer_type="basic", num_labels=10)))
    save("resnet-basic-hf", resnet, published(resnet), lambda m: m(seen()).logits)
    block = tv.convnext.CNBlockConfig
    convnext = filled(tv.convnext.ConvNeXt([block(4, 8, 1), block(8, 16, 1), block(16, 32, 2), block(32, None, 1)], num_classes=10))
    save("convnext-torchvision", convnext, convnext.state_dict(), lambda m: m(seen()))
    convnext = filled(hf.ConvNextForImageClassification(hf.ConvNextConfig(hidden_sizes=[4, 8, 16, 32], depths=[1, 1, 2, 1], num_labels=10, layer_norm_eps=1e-6)))
    save("convnext-hf", convnext, published(convnext), lambda m: m(seen()).logits)
    convnext = filled(timm.models.ConvNeXt(depths=(1, 1, 2, 1), dims=(4, 8, 16, 32), num_classes=10, ls_init_value=0.5))
    save("convnext-timm", convnext, convnext.state_dict(), lambda m: m(seen()))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.cell = torch.nn.LSTM(7, 5, 2), torch.nn.GRU(5, 3, 1, bidirectional=True), torch.nn.RNN(6, 4)

    def forward(self, x):
        for part in (self.lstm, self.gru, self.cell):
            x = part(x)[0]
        return x


def recurrent_models():
    model = filled(Recurrent())
    torch.save(model.state_dict(), OUT / "recurrent-torch.pt")
    x = torch.nn.functional.one_hot(torch.tensor(TOKEN) % 7, 7).double()
    save("recurrent-torch", model, None, lambda m: m(x.transpose(0, 1)).transpose(0, 1))


class Narrow:
    """keras.layers, with an n-th of the filters, for what builds applications"""
    def __init__(self, n):
        self.n = n

    def __getattr__(self, name):
        if name != "Conv2D":
            return getattr(keras.layers, name)
        return lambda filters, *args, **named: keras.layers.Conv2D(filters // self.n, *args, **named)


def resnet_of_keras():
    from keras.src.applications import resnet
    resnet.layers = Narrow(32)

    def stack(x):
        for n, (filters, blocks) in enumerate(((64, 1), (128, 1), (256, 1), (512, 2))):
            x = resnet.stack_residual_blocks_v1(x, filters, blocks, stride1=2 if n else 1, name=f"conv{n + 2}")
        return x
    return resnet.ResNet(stack, False, True, weights=None, input_shape=(32, 32, 3), classes=10, classifier_activation=None)


def convnext_of_keras():
    from keras.src.applications import convnext
    return convnext.ConvNeXt([1, 1, 2, 1], [4, 8, 16, 32], weights=None, input_shape=(32, 32, 3), classes=10, classifier_activation=None, name="convnext_tiny")


def recurrent_of_keras():
    many = {"return_sequences": True}
    return keras.Sequential([keras.Input((6, 7)), keras.layers.GRU(5, **many, name="first"), keras.layers.Bidirectional(keras.layers.GRU(4, **many), name="both"),
                             keras.layers.Bidirectional(keras.layers.LSTM(3, **many), name="long"), keras.layers.GRU(3, reset_after=False, **many, name="before"),
                             keras.layers.LSTM(3, **many, name="short"), keras.layers.SimpleRNN(6, **many, name="simple")])


def models_of_keras():
    x, words = PICTURE.astype("float64"), np.eye(7)[TOKEN % 7]
    for name, build, x, kinds in (("resnet-keras", resnet_of_keras, x[..., ::-1] - [103.939, 116.779, 123.68], ("keras", "h5")), ("convnext-keras", convnext_of_keras, x, ("keras", "h5.gz")),
                                  ("recurrent-keras", recurrent_of_keras, words, ("keras", "h5.gz"))):
        keras_models.exactly()
        random, model = np.random.default_rng(3), build()
        for v in model.variables:
            scale = random.normal(size=v.shape) * 0.3 + (v.name == "gamma")
            v.assign((random.random(v.shape) + 0.5 if v.name == "moving_variance" else scale).astype("float16"))
        np.save(OUT / f"{name}.npy", keras_models.computed(model, x)[0])
        keras.backend.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
        keras.backend.clear_session()  # the same names of layers once more
        single = build()
        single.set_weights(model.get_weights())
        for kind in kinds:
            file = OUT / f"{name}.{kind}"
            single.save(file.with_suffix("") if kind == "h5.gz" else file)
            if kind == "h5.gz":
                file.write_bytes(gzip.compress(file.with_suffix("").read_bytes(), mtime=0))
                file.with_suffix("").unlink()
            if kind == "keras":  # packed, which Keras does not
                with zipfile.ZipFile(file) as z:
                    parts = {n: z.read(n) for n in z.namelist()}
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
                    for n, data in parts.items():
                        z.writestr(zipfile.ZipInfo(n), data, zipfile.ZIP_DEFLATED)
        print(name)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True, parents=True)
    np.save(OUT / "token.npy", TOKEN)
    np.save(OUT / "segment.npy", SEGMENT)
    np.save(OUT / "picture.npy", PICTURE)
    language_models()
    vision_models()
    recurrent_models()
    models_of_keras()
