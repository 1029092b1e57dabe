"""What transformers of diffusers cost by their configurations: against smaller images, closed forms and papers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import tread_bench
from tread_bench.core.describe.families import make_spec
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import cost_of

pytest.importorskip("diffusers", reason="diffusers is not installed (extra vae)")

from tread_bench.measure.diffusers_cost import KINDS, count_config

SMALL_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}
LATENTS = {"sample_size": 8, "patch_size": 2, "in_channels": 4}
FLUX = {**SMALL_HEADS, "in_channels": 16, "num_layers": 2, "num_single_layers": 2, "joint_attention_dim": 24,
        "axes_dims_rope": [4, 6, 6]}  # fmt: skip
CONFIGS = {
    "DiTTransformer2DModel": {**SMALL_HEADS, **LATENTS, "out_channels": 8, "num_layers": 4,
                              "norm_elementwise_affine": False},
    "Flux2Transformer2DModel": {**FLUX, "axes_dims_rope": [4, 4, 4, 4], "timestep_guidance_channels": 16},
    "FluxTransformer2DModel": {**FLUX, "pooled_projection_dim": 12, "guidance_embeds": True},
    "PRXTransformer2DModel": {"in_channels": 4, "patch_size": 2, "context_in_dim": 24, "hidden_size": 32, "depth": 4,
                              "num_heads": 2, "axes_dim": [8, 8]},
    "PixArtTransformer2DModel": {**SMALL_HEADS, **LATENTS, "out_channels": 8, "num_layers": 4, "caption_channels": 24,
                                 "cross_attention_dim": 32},
    "SD3Transformer2DModel": {**SMALL_HEADS, **LATENTS, "num_layers": 4, "joint_attention_dim": 24,
                              "caption_projection_dim": 32, "pooled_projection_dim": 12, "pos_embed_max_size": 16},
    "QwenImageTransformer2DModel": {**SMALL_HEADS, "in_channels": 16, "num_layers": 4, "joint_attention_dim": 24,
                                    "axes_dims_rope": [4, 6, 6]},
    "WanTransformer3DModel": {**SMALL_HEADS, "in_channels": 4, "out_channels": 4, "num_layers": 4, "text_dim": 24,
                              "freq_dim": 16, "ffn_dim": 48},
}  # fmt: skip
TEXT = 5


def count(name, routes="", side=8, text=TEXT):
    config = {"_class_name": name, "_diffusers_version": "0.42.0", **CONFIGS[name]}
    return count_config(config, parse_routes(routes), side, text if KINDS[name].text else None)


@pytest.mark.parametrize("name", CONFIGS)
def test_blocks_on_a_route_cost_what_they_cost_on_an_image_of_as_many_tokens(name):
    dense, quarter = count(name), count(name, side=4)
    routed = count(name, "0:-1@0.75")
    assert routed.tokens_per_block == [quarter.image_tokens] * len(dense.dense.blocks)
    assert routed.dense == dense.dense and routed.dense.params == dense.dense.params
    assert routed.routed.blocks == quarter.dense.blocks
    assert routed.routed.outside == dense.dense.outside  # before and after the blocks, every token is there


def test_a_block_of_wan_is_its_closed_form():
    """Of 21 frames of 4 x 4 tokens, half of which bypass a block: self-attention, then attention to the text."""
    block, width, hidden = count("WanTransformer3DModel", "1:2@0.5").routed.blocks[1], 32, 48
    tokens = 21 * 4 * 4 // 2
    assert block.attention == 2 * tokens**2 * width + 2 * tokens * TEXT * width
    assert block.linear == 6 * tokens * width**2 + 2 * TEXT * width**2 + 2 * tokens * width * hidden


def test_dit_xl_2_costs_what_its_paper_says_and_what_the_family_of_this_project_does():
    """118.64 "Gflops" in the paper; diffusers embeds the time in each block, which adds 0.05 GMACs."""
    config = {"_class_name": "DiTTransformer2DModel", "num_attention_heads": 16, "attention_head_dim": 72,
              "in_channels": 4, "out_channels": 8, "num_layers": 28, "sample_size": 32, "patch_size": 2,
              "norm_elementwise_affine": False}  # fmt: skip
    found = count_config(config, parse_routes("2:-4@0.5"))
    assert found.dense.forward.total / 1e9 == pytest.approx(118.64, rel=1e-3)
    own, dense = (cost_of(*make_spec("DiT-XL/2"), routes) for routes in (parse_routes("2:-4@0.5"), ()))
    share = own.forward.total / dense.forward.total
    assert found.routed.forward.total / found.dense.forward.total == pytest.approx(share, rel=1e-3)


def test_flux_has_its_published_number_of_parameters():
    config = {"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "guidance_embeds": True,
              "in_channels": 64, "joint_attention_dim": 4096, "num_attention_heads": 24, "num_layers": 19,
              "num_single_layers": 38, "patch_size": 1, "pooled_projection_dim": 768}  # fmt: skip
    found = count_config(config, [])
    assert found.dense.params == 11_901_408_320
    assert (found.image_tokens, found.text_tokens, found.image_size) == (4096, 512, 128)


@pytest.mark.parametrize(
    ("changes", "routes", "given", "said"),
    [
        ({"_class_name": "FluxTransformer2DModl"}, "", {}, "did you mean 'FluxTransformer2DModel'"),
        ({}, "", {"image_size": 7}, "multiple of 2"),
        ({}, "", {"text_tokens": 3}, "takes no text"),
        ({}, "0:1@0.5", {"image_size": 4}, "a route is counted from 6 on"),
        ({"num_layers": 0}, "", {}, "has no blocks"),
        ({"num_layers": "many"}, "", {}, "does not build or run"),
    ],
)
def test_what_a_configuration_cannot_be(changes, routes, given, said):
    config = {"_class_name": "DiTTransformer2DModel", **CONFIGS["DiTTransformer2DModel"], **changes}
    with pytest.raises(UserError, match=said):
        count_config(config, parse_routes(routes), **given)


@pytest.mark.parametrize("beyond", [{"image_dim": 16}, {"patch_size": [2, 2, 2]}, {"patch_size": [1, 2, 4]}])
def test_a_video_is_counted_with_text_alone_and_square_patches(beyond):
    wan = {"_class_name": "WanTransformer3DModel", **CONFIGS["WanTransformer3DModel"]}
    with pytest.raises(UserError, match="square patches of single frames"):
        count_config(wan | beyond, [], 8)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"_class_name": "DiTTransformer2DModel", **CONFIGS["DiTTransformer2DModel"]}))
    return path


def test_it_is_profiled_as_a_user_types_it(config):
    done = tread_bench("profile", "--config", config, "--route", "1:2@0.5", "--json")
    found = json.loads(done.stdout)
    assert found["backbone"] == "DiTTransformer2DModel" and found["routes"] == "1:2@0.5"
    assert found["tokens_per_block"] == [16, 8, 8, 16]
    assert found["forward_macs"] / found["dense_forward_macs"] == pytest.approx(found["macs_ratio"])
    shown = tread_bench("profile", "--config", config, "--set", "image_size=16").stdout
    assert "latents 4 x 16 x 16" in shown and "GMACs per image; dense " in shown


def test_a_route_is_written_for_it_and_for_a_depth_alone(config):
    """Of 4 blocks, and of 57; 4 tokens of text are counted beside 16 of the image."""
    asked = ("profile", "--config", config, "--route", "1:-2@0.5", "--as", "simpletuner", "--text-tokens", "4")
    expected = '{"routes": [{"selection_ratio": 0.4, "start_layer_idx": 1, "end_layer_idx": 2}]}\n'
    assert tread_bench(*asked).stdout == expected
    asked = ("profile", "--route", "2:-4@0.5", "--as", "prx", "--depth", "57")
    written = '{"routing_probability": 0.5, "route_start": 2, "route_end": 53}'
    assert tread_bench(*asked).stdout == f"{written}\n"
    assert json.loads(tread_bench(*asked, "--json").stdout) == {"routes": "2:53@0.5", "written": written}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["DiT-S/2", "--config", "CONFIG"], "give one of them"),
        (["--as", "prx", "--route", "1:2@0.5"], "give one of them, or --as TRAINER and --depth"),
        (["--as", "prx", "--depth", "9", "--set", "a=1", "--text-tokens", "4"], "leave --set, --text-tokens out"),
        (["--config", "CONFIG", "--selector", "rows"], "leave --selector out"),
        (["--config", "TEXT"], "is not JSON"),
        (["--config", "LIST"], "has no _class_name"),
        (["--config", "CONFIG", "--route", "2:9@0.5"], "4 blocks"),
    ],
)
def test_a_mistake_gets_one_message(config, arguments, said):
    Path(config.parent / "TEXT").write_text("{")
    Path(config.parent / "LIST").write_text("[]")
    config.rename(config.parent / "CONFIG")
    done = tread_bench("profile", *arguments, cwd=config.parent)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
