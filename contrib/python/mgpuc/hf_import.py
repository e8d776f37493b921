"""A folder of Hugging Face -> its module, by transformers; no code of the folder runs, nothing is downloaded."""
import re

from .tools import Failed

FAMILIES = ("bert", "convnext", "deit", "gpt2", "llama", "mistral", "qwen2", "resnet", "vit")  # by the model_type of config.json; each is a case of tests/import.test


def module_of(folder):
    import transformers

    def wrong(why):
        return Failed(f"{folder}: {why}")
    local = {"trust_remote_code": False, "local_files_only": True}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **local)
    except Exception as e:
        raise wrong(f"transformers {transformers.__version__} cannot read its config.json: {first_line(e)}") from None
    if config.model_type not in FAMILIES:
        raise wrong(f"its family {config.model_type!r} is none of those that from_hf is tested with: {', '.join(FAMILIES)}; mgpuc.from_torch(module, example_inputs) takes a module of any")
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type", "default") == "dynamic":
        raise wrong("its rope_type 'dynamic' makes rotations of a text's length, which has no counterpart; for texts of at most max_position_embeddings 'default' computes the same")
    name = (config.architectures or ["AutoModel"])[0]
    kind = getattr(transformers, name, None) if isinstance(name, str) else None
    if not isinstance(kind, type) or not issubclass(kind, (transformers.PreTrainedModel, transformers.AutoModel)):
        raise wrong(f"its config.json names the class {name!r}, which is no model of transformers {transformers.__version__}")
    try:
        attention = None if config.model_type in ("convnext", "resnet") else "sdpa"
        module, found = kind.from_pretrained(folder, attn_implementation=attention, dtype=widened(config), output_loading_info=True, **local)
    except Exception as e:
        raise wrong(f"{name} of transformers {transformers.__version__} cannot be made of it: {first_line(e)}") from None
    missing = sorted(found["missing_keys"])
    if missing:  # which transformers begins with random numbers
        raise wrong(f"there are no weights for {', '.join(missing[:5])}" + (f", ... ({len(missing)} in all)" if len(missing) > 5 else "") + f", which {name} has")
    left = sorted(k for k in found["unexpected_keys"] if re.search(r"\.\d+\.", k))
    if left:  # of numbered layers; a head for another task is left out
        raise wrong(f"its config.json has no place for the weights {', '.join(left[:3])}" + (f", ... ({len(left)} in all)" if len(left) > 3 else ""))
    return module


def widened(config):
    """The type of the module: f32 for halves and bfloat16, in which transformers would round rotations and what else it computes of no weight."""
    import torch
    return config.dtype if config.dtype == torch.float64 else torch.float32


def first_line(error):
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}"[:400]
