"""Models in the layout of Hugging Face, saved and loaded: every file is identical, and every tensor is known.

The safetensors package makes the models. Loaded files are compared as files and opened with it again.
"""

import json
from pathlib import Path

import numpy
import pytest
import safetensors
import safetensors.numpy

from helpers import fill, noise, tree

TENSORS = {
    "model-00001-of-00003.safetensors": {
        "model.embed_tokens.weight": numpy.arange(1000 * 256, dtype=numpy.float32).reshape(1000, 256),
        "model.layers.0.input_layernorm.weight": numpy.ones(256, dtype=numpy.float16)},
    "model-00002-of-00003.safetensors": {
        # Two parts of 5 MiB and a bit.
        "model.layers.0.mlp.up_proj.weight": numpy.arange(1376 * 1024, dtype=numpy.float64).reshape(1376, 1024),
        "model.layers.0.mlp.experts": numpy.arange(2 * 3 * 4 * 5, dtype=numpy.int8).reshape(2, 3, 4, 5)},
    "model-00003-of-00003.safetensors": {
        "lm_head.weight": numpy.arange(256 * 300, dtype=numpy.int64).reshape(300, 256),
        "rotary.mask": numpy.array([True, False, True]),
        "step": numpy.array(7, dtype=numpy.uint16),
        "unused": numpy.empty((0, 16), dtype=numpy.uint8)}}
DTYPES = {"float16": "F16", "float32": "F32", "float64": "F64", "int8": "I8", "int64": "I64", "bool": "BOOL",
          "uint8": "U8", "uint16": "U16"}
OTHERS = {
    "config.json": b'{\n  "architectures": ["LlamaForCausalLM"],\n  "hidden_size": 256\n}\n',
    "generation_config.json": b'{"do_sample": true}',
    "tokenizer.json": noise(3 << 20, 1),
    "tokenizer.model": noise(499723, 2),
    "tokenizer_config.json": '{"bos_token": "<\uff5cbegin\u2581of\u2581sentence\uff5c>"}'.encode(),
    "special_tokens_map.json": b"{}\n",
    "added_tokens.json": b"",
    "vocab.json": json.dumps({"\u0120the": 0, "\u010a": 1}, ensure_ascii=False).encode(),
    "merges.txt": "#version: 0.2\n\u0120 t\n\u0120 a\r\n".encode(),
    "vocab/\u8bcd\u8868-\u00e9t\u00e9.txt": b"utf-8\n",
    "vocab/e\u0301.txt": b"decomposed\n",
    "vocab/\u00e9.txt": b"composed\n",
    ".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
    ".cache/huggingface/download/config.json.metadata": b"2026\n",
    "README.md": b"---\nlicense: apache-2.0\n---\n",
    "LICENSE": b"Apache",
    "original/params.json": b'{"dim": 256}',
    "original/consolidated.00.pth": b"PK\x03\x04" + noise(100000, 3),
    "onnx/model (fp16) + extra.onnx": noise(5000, 4),
    "a b/c+d/e%20f/g&h=i;j,k@l!m$n'o(p)q*r": b"odd",
    "tilde~ and #hash ?query [x] {y} ^ ` |.txt": b"odder",
    "UPPER.bin": b"1",
    "upper.bin": b"2",
    "index.html\u3000": b"",
}


def make_model(folder):
    fill(folder, OTHERS)
    weights = {}
    for name, tensors in TENSORS.items():
        safetensors.numpy.save_file(tensors, folder / name, metadata={"format": "pt"})
        weights.update({tensor: name for tensor in tensors})
    size = sum(array.nbytes for tensors in TENSORS.values() for array in tensors.values())
    fill(folder, {"model.safetensors.index.json":
                  json.dumps({"metadata": {"total_size": size}, "weight_map": weights}, indent=2).encode()})
    return folder


def round_trip(store, folder, tmp_path, *arguments):
    store.save(folder, 1, *arguments)
    result = store.cleat("load", store.url, tmp_path / "back")
    assert result.code == 0, result
    return tmp_path / "back"


@pytest.mark.parametrize("arguments",
                         [[], ["--part-size", "5M"], ["--part-size", "5M", "--staging", "5M", "--jobs", "1"]])
def test_a_model_comes_back_file_for_file(store, tmp_path, arguments):
    model = make_model(tmp_path / "model")
    expected = tree(model)
    back = round_trip(store, model, tmp_path, *arguments)
    found = tree(back)
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []
    assert tree(model) == expected  # nor was the source touched
    assert not any(path.is_symlink() for path in back.rglob("*"))


def test_what_came_back_opens_as_the_model_it_was(store, tmp_path):
    back = round_trip(store, make_model(tmp_path / "model"), tmp_path)
    index = json.loads((back / "model.safetensors.index.json").read_text())
    for name, tensors in TENSORS.items():
        with safetensors.safe_open(back / name, framework="numpy") as opened:
            assert opened.metadata() == {"format": "pt"}
            assert sorted(opened.keys()) == sorted(tensors)
            for tensor, array in tensors.items():
                assert index["weight_map"][tensor] == name
                assert opened.get_tensor(tensor).dtype == array.dtype
                assert numpy.array_equal(opened.get_tensor(tensor), array), tensor


def test_show_lists_every_tensor(store, tmp_path):
    store.save(make_model(tmp_path / "model"), 1, "--part-size", "5M")
    shown = store.cleat("show", store.url, "--json").json
    expected = sorted((tensor, DTYPES[array.dtype.name], list(array.shape), array.nbytes, name)
                      for name, tensors in TENSORS.items() for tensor, array in tensors.items())
    assert [(tensor["name"], tensor["dtype"], tensor["shape"], tensor["bytes"], tensor["file"])
            for tensor in shown["tensors"]] == expected
    assert {file["name"]: file["bytes"] for file in shown["files"]} \
        == {name: len(data) for name, data in tree(tmp_path / "model").items()}
    people = store.cleat("show", store.url).out
    for tensor, dtype, shape, _, name in expected:
        assert tensor in people and name in people and str(shape) in people, (tensor, people)


def test_two_parts_of_a_pipeline_with_equal_tensor_names(store, tmp_path):
    """As diffusers does: each folder a model of its own. Nothing gets lost, and no tensor hides another one."""
    names = ("unet", "text_encoder", "text_encoder_2", "vae")
    for number, name in enumerate(names):
        (tmp_path / "in" / name).mkdir(parents=True)
        tensors = {"conv_in.weight": numpy.full((4, number + 1), number, dtype=numpy.float32),
                   "%s.only" % name: numpy.arange(number, dtype=numpy.int32)}
        safetensors.numpy.save_file(tensors, tmp_path / "in" / name / "diffusion_pytorch_model.safetensors")
    fill(tmp_path / "in", {"model_index.json": b'{"_class_name": "StableDiffusionXLPipeline"}',
                           "scheduler/scheduler_config.json": b"{}"})
    back = round_trip(store, tmp_path / "in", tmp_path)
    assert tree(back) == tree(tmp_path / "in")

    shown = store.cleat("show", store.url, "--json").json["tensors"]
    assert len(shown) == 2 * len(names)
    assert len({tensor["name"] for tensor in shown}) == len(shown)  # so that each can be asked for
    for number, name in enumerate(names):
        file = "%s/diffusion_pytorch_model.safetensors" % name
        inside = {Path(tensor["name"]).name: tensor["shape"] for tensor in shown if tensor["file"] == file}
        assert sorted(map(tuple, inside.values())) == sorted([(4, number + 1), (number,)]), shown


def test_one_file_models_and_adapters(store, tmp_path):
    (tmp_path / "in").mkdir()
    safetensors.numpy.save_file({"lora_A.weight": numpy.ones((8, 64), dtype=numpy.float32)},
                                tmp_path / "in" / "adapter_model.safetensors")
    fill(tmp_path / "in", {"adapter_config.json": b"{}"})
    assert tree(round_trip(store, tmp_path / "in", tmp_path)) == tree(tmp_path / "in")
    tensor, = store.cleat("show", store.url, "--json").json["tensors"]
    assert (tensor["name"], tensor["dtype"], tensor["shape"]) == ("lora_A.weight", "F32", [8, 64])
