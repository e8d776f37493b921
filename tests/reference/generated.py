"""generated.py FOLDER: a small GPT-2 and a small Llama of transformers with random weights and tokenizers trained here; prompts, and the 32
tokens that transformers' generate makes of each, as numbers and as the text that they are."""
import os, re, sys, torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEXT = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/language.md")).read().splitlines()
PROMPTS = ["Where the weights", "data { train = tokens", "a é 漢字 b"]
BYTES = {}
for b in range(256):
    BYTES[chr(b if 33 <= b < 127 or 161 <= b < 173 or b > 173 else 256 + len([x for x in range(b) if not (33 <= x < 127 or 161 <= x < 173 or x > 173)]))] = b

def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=500, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t, GPT2LMHeadModel(GPT2Config(vocab_size=500, n_positions=1024, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0, initializer_range=0.3))

def llama():
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)], show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t, LlamaForCausalLM(LlamaConfig(vocab_size=800, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                           initializer_range=0.3, bos_token_id=1, eos_token_id=2, rms_norm_eps=1e-5, rope_theta=10000.0))

def spell(token):
    byte = re.fullmatch("<0x([0-9A-F]{2})>", token)
    if byte:
        return bytes([int(byte[1], 16)])
    return bytes(BYTES[c] for c in token) if all(c in BYTES for c in token) and "▁" not in token else token.replace("▁", " ").encode()

for make in gpt2, llama:
    torch.manual_seed(1)
    tokenizer, model = make()
    folder = os.path.join(sys.argv[1], make.__name__)
    model.save_pretrained(os.path.join(folder, "weights"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    os.link(os.path.join(folder, "weights/model.safetensors"), os.path.join(folder, "model.safetensors"))
    os.link(os.path.join(folder, "weights/config.json"), os.path.join(folder, "config.json"))
    model.generation_config.eos_token_id = None
    for n, prompt in enumerate(PROMPTS):
        given = tokenizer.encode(prompt).ids
        ids = model.double().eval().generate(torch.tensor([given]), max_new_tokens=32, do_sample=False, eos_token_id=None)[0].tolist()
        write = lambda name, data: open(os.path.join(folder, f"{name}.{n}"), "wb").write(data)
        write("numbers", " ".join(map(str, given)).encode())
        write("expected", (" ".join(map(str, ids)) + "\n").encode())
        write("prompt", prompt.encode())
        write("text", prompt.encode() + b"".join(spell(tokenizer.id_to_token(i)) for i in ids[len(given):]) + b"\n")
