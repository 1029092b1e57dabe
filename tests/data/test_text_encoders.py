"""Text encoders keep their contract, words have laws, CLIP is that of transformers; features are computed once."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tests.shown_checks import failing, shown
from tread_bench.core.describe.data_sources import text_encoders
from tread_bench.core.errors import UserError
from tread_bench.data.captions import features
from tread_bench.data.captions.family import Captions
from tread_bench.data.captions.features import CaptionFeatures
from tread_bench.data.check import data_problems
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.text.encoder import encoder_sha256, open_text_encoder
from tread_bench.data.text.words.encoder import Words, word_vector, words_of
from tread_bench.data.text.words.family import WordsOptions

WORDS = text_encoders.find("words")


@pytest.mark.parametrize("options", [{}, {"tokens": 5, "width": 7}])
def test_words_keep_the_contract(options):
    assert failing("text-encoder", ENCODER=WORDS, OPTIONS=options) == set()


class Broken(Words):
    """Whose features a function changes."""

    def __init__(self, options):
        super().__init__(options)
        self.drawn = torch.randn(options.width)

    def encode(self, captions):
        return self.changed(super().encode(captions))

    def lengths(self, captions):
        lengths = super().lengths(captions)
        return [min(length, self.options.tokens) for length in lengths] if self.cuts_off else lengths


def bag_of_words(encoder, found):
    found = found - torch.from_numpy(encoder._places).float()
    return found.sum(1, keepdim=True).round(decimals=3).expand_as(found)


BROKEN = {
    "short": (lambda encoder, found: found[:, :-1], "features"),
    "not a number": (lambda encoder, found: found / 0, "features"),
    "bag of words": (bag_of_words, "content"),
    "standardised batches": (lambda encoder, found: found - found.mean(0), "batches"),
    "lengths cut off": (lambda encoder, found: found, "lengths"),
    "drawn": (lambda encoder, found: found + encoder.drawn, "determinism"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_finds_what_it_is_there_for(name, monkeypatch):
    change, check = BROKEN[name]
    monkeypatch.setattr(Broken, "changed", change, raising=False)
    monkeypatch.setattr(Broken, "cuts_off", check == "lengths", raising=False)
    assert failing("text-encoder", ENCODER=replace(WORDS, builder=f"{__name__}:Broken")) == {check}


# ---- words


def encoded(*captions, tokens=6, width=64):
    return Words(WordsOptions(tokens=tokens, width=width)).encode(captions)


def test_a_word_has_one_vector_of_fixed_length_wherever_it_is():
    first, second = encoded("cat sat", "a Cat!")
    places = encoded("cat cat cat")[0]
    place = torch.from_numpy(Words(WordsOptions(tokens=6, width=64))._places).float()
    vector = torch.from_numpy(word_vector("cat", 64)).float()
    torch.testing.assert_close(first[0] - place[0], vector, rtol=0, atol=1e-6)
    torch.testing.assert_close(second[1] - place[1], vector, rtol=0, atol=1e-6)
    torch.testing.assert_close(places[:3] - place[:3], vector.expand(3, 64), rtol=0, atol=1e-6)
    assert torch.allclose(place.square().sum(1), torch.tensor(64.0), atol=1e-3)


def test_padding_is_zeros_and_the_empty_caption_is_all_padding():
    found = encoded("one two", "", " \n\u2028\x00")
    assert (found[0, :2] != 0).any(1).all()
    assert not found[0, 2:].any() and not found[1].any()


def test_words_are_runs_of_letters_whatever_the_script_and_composition():
    assert words_of("Zwei Hunde, 2x!") == ["zwei", "hunde", ",", "2x", "!"]
    assert words_of("caf\u00e9") == words_of("cafe\u0301")
    assert words_of("STRASSE Straße") == ["strasse", "strasse"]
    assert words_of("<b>&") == ["<", "b", ">", "&"]


def test_features_are_the_same_bytes_on_every_machine():
    """The hash of features that were computed once; integers, roots and quotients have the same bits everywhere."""
    found = encoded(*shown("text-encoder")["CAPTIONS"], tokens=24)
    assert hashlib.sha256(found.numpy().tobytes()).hexdigest() == PINNED


PINNED = "91e579a7e6b24cd220619ff154bf4a47033ee5d62b0a79ba715728c3bb1e4700"


# ---- CLIP

TOKENS, WIDTH = 12, 16


def write_clip(folder: Path, seed: int = 0, **changed: int) -> str:
    """Return the folder. Words are spelt out in characters: the tokenizer joins none but t, h and e."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTextConfig, CLIPTextModel

    # Tokenizer.
    folder.mkdir(parents=True)
    characters = sorted(ByteLevel.alphabet())
    joined = ["th", "the</w>"]
    symbols = [*characters, *(f"{one}</w>" for one in characters), *joined, "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\n")

    # Model.
    torch.manual_seed(seed)
    about = {
        "vocab_size": len(vocabulary),
        "hidden_size": WIDTH,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": TOKENS,
        "bos_token_id": len(vocabulary) - 2,
        "eos_token_id": len(vocabulary) - 1,
        "pad_token_id": len(vocabulary) - 1,
        **changed,
    }
    CLIPTextModel(CLIPTextConfig(**about)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("transformers")
    return write_clip(tmp_path_factory.mktemp("clip") / "clip")


def settings(folder, **changed):
    return text_encoders.find("clip").options(**{"weights": str(folder), "tokens": TOKENS, "width": WIDTH, **changed})


def test_clip_keeps_the_contract(clip):
    options = {"weights": clip, "tokens": TOKENS, "width": WIDTH}
    assert failing("text-encoder", ENCODER=text_encoders.find("clip"), OPTIONS=options) == set()


def test_clip_is_that_of_transformers(clip, monkeypatch):
    import transformers

    captions = ["the cat", "", "a very long caption of the cat", "街"]
    tokenizer = transformers.CLIPTokenizer.from_pretrained(clip)
    ids = tokenizer(captions, padding="max_length", max_length=TOKENS, truncation=True, return_tensors="pt").input_ids
    assert ids.shape == (4, TOKENS)
    with torch.no_grad():
        expected = transformers.CLIPTextModel.from_pretrained(clip).eval()(input_ids=ids).last_hidden_state
    opened = Mock(wraps=transformers.CLIPTokenizer.from_pretrained)
    monkeypatch.setattr(transformers.CLIPTokenizer, "from_pretrained", opened)
    encoder = open_text_encoder(settings(clip))
    opened.assert_called_once_with(Path(clip), local_files_only=True)
    torch.testing.assert_close(encoder.encode(captions), expected, rtol=1e-5, atol=1e-6)
    assert encoder.lengths(captions)[:2] == [len(tokenizer("the cat").input_ids), 2]
    assert encoder.lengths(captions)[2] > TOKENS


def test_clip_is_known_by_the_contents_of_its_files(clip, tmp_path):
    here, there = settings(clip), settings(write_clip(tmp_path / "same"))
    assert encoder_sha256(here) == encoder_sha256(there)
    assert encoder_sha256(settings(write_clip(tmp_path / "other", seed=1))) != encoder_sha256(here)
    with open(Path(there.weights) / "merges.txt", "a") as file:
        file.write("a n\n")
    assert encoder_sha256(there) != encoder_sha256(here)


def test_a_folder_that_is_not_clip_is_refused_by_its_rule(clip, tmp_path):
    (message,) = data_problems([(GlyphsData(captions={"encoder": settings(clip, width=768).model_dump()}), False)])
    assert "tokens of width 16 where the encoder's width is 768: set width: 16" in message
    with pytest.raises(UserError, match=r"at most 12 tokens where the encoder's tokens are 77: set tokens: 12"):
        open_text_encoder(settings(clip, tokens=77))
    with pytest.raises(UserError, match=r"config.json: no such file; give a folder with a CLIPTextModel"):
        open_text_encoder(settings(tmp_path))
    with pytest.raises(UserError, match=r"config\.json cannot be read \(No such file or directory\)"):
        encoder_sha256(settings(tmp_path))
    deeper = write_clip(tmp_path / "deeper", num_hidden_layers=3)
    shutil.copy(Path(clip) / "model.safetensors", deeper)
    with pytest.raises(UserError, match="weights are missing, such as"):
        open_text_encoder(settings(deeper))


def test_without_transformers_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UserError, match=r"needs transformers .*: pip install 'tread-bench\[text\]'"):
        open_text_encoder(settings(tmp_path))


CAPTIONS = [f"caption number {number} of many" for number in range(40)]
EACH = 4  # captions in a shard
SHARD_BYTES = EACH * 24 * 64 * 4


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_SHARD_BYTES", SHARD_BYTES)


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every caption that is encoded."""
    done: list[str] = []
    encode = Words.encode
    monkeypatch.setattr(Words, "encode", lambda self, captions: done.extend(captions) or encode(self, captions))
    return done


def stored(captions: list[str] = CAPTIONS, **settings: object) -> CaptionFeatures:
    return CaptionFeatures(Captions.model_validate(settings), captions)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_caption_is_encoded_once_and_mapped_afterwards(encodings: list[str]) -> None:
    first = stored([*CAPTIONS, *CAPTIONS[:5]])
    asked = [CAPTIONS[39], "", CAPTIONS[0], CAPTIONS[39]]
    expected = Words(text_encoders.find("words").options()).encode(asked)
    encodings.clear()
    assert torch.equal(first.of(asked), expected)
    assert sorted(encodings) == sorted(["", *CAPTIONS])
    assert len(content(first.folder)) == 11  # 41 captions, 4 in a shard
    encodings.clear()
    again = stored()
    assert torch.equal(again.of(asked), expected) and torch.equal(first.of(asked), expected)
    assert encodings == []


def test_float16_is_what_float32_rounds_to() -> None:
    whole, half = stored(), stored(dtype="float16")
    assert half.folder != whole.folder
    assert torch.equal(half.of(CAPTIONS), whole.of(CAPTIONS).half().float())
    assert sum(map(len, content(half.folder).values())) < 0.6 * sum(map(len, content(whole.folder).values()))


def test_a_shard_that_is_lost_or_cut_is_encoded_again(encodings: list[str]) -> None:
    first, other = stored(), stored(CAPTIONS[::-1])
    another_setting = stored(encoder={"name": "words", "tokens": 25})
    assert len({first.folder, other.folder, stored(CAPTIONS[1:]).folder, another_setting.folder}) == 4
    expected, _ = first.of(CAPTIONS), other.of(CAPTIONS)
    before = content(first.folder)
    names = sorted(before)
    (first.folder / names[1]).unlink()
    (first.folder / names[3]).write_bytes(before[names[3]][:-5])
    (first.folder / ".tread-bench-x.tmp").write_bytes(b"half")
    encodings.clear()
    assert torch.equal(stored().of(CAPTIONS), expected)
    assert len(encodings) == 2 * EACH
    assert content(first.folder) == before


def test_without_a_cache_that_can_be_written_features_are_the_same(tmp_path: Path, monkeypatch: Any) -> None:
    expected = stored().of(CAPTIONS)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert torch.equal(stored().of(CAPTIONS), expected)
