"""What must hold of every data source: save this beside your own, and put its description in place of DATA.

A few hundred samples are enough: each is read several times. A source that reads files also gets options with the same
files at another place (MOVED) and with files of other content (CHANGED).
"""

import numpy as np
import torch
from drawn_shapes.family import SHAPES as DATA

from tread_bench.core.describe.plugins import named
from tread_bench.data.source import CaptionedSplit

OPTIONS, MOVED, CHANGED = {"count": 200}, None, {"count": 210}


def options_of(written):
    return DATA.options.model_validate({"name": DATA.name, **written})


def opened(written):
    return named(DATA.builder)(options_of(written))


def parts(written):
    source = opened(written)
    return source.train, source.held_out


def content(part):
    """All samples and labels in their order, cloned: a source may reuse its memory."""
    batches = np.array_split(np.arange(len(part)), 3)
    images = torch.cat([part.images(index).clone() for index in batches])
    return images, torch.cat([part.labels(index).clone() for index in batches])


def test_shape():
    """Both parts are float32, of the shape that the options say, finite, and images in [-1, 1]."""
    options, source = options_of(OPTIONS), opened(OPTIONS)
    assert source.num_classes == options.num_classes
    is_image = not DATA.not_comparable(options) and DATA.decoding(options) is None
    for part in (source.train, source.held_out):
        images, _ = content(part)
        assert images.shape == (len(part), options.channels, options.image_size, options.image_size)
        assert tuple(part.shape) == images.shape[1:]
        assert images.dtype == torch.float32 and images.isfinite().all()
        assert not is_image or images.abs().max() <= 1


def test_counts():
    """What the description counts is there."""
    counts = DATA.counts(options_of(OPTIONS))
    assert counts is None or tuple(counts) == tuple(map(len, parts(OPTIONS)))


def test_labels():
    """Labels are int64 in 0 .. num_classes - 1, and 0 where there are no classes."""
    for part in parts(OPTIONS):
        _, labels = content(part)
        assert labels.shape == (len(part),) and labels.dtype == torch.int64
        assert labels.min() >= 0 and labels.max() < max(options_of(OPTIONS).num_classes, 1)


def test_order():
    """A sample and its label are the same in any order and any batch."""
    generator = np.random.default_rng(0)
    for part in parts(OPTIONS):
        images, labels = content(part)
        twice, one = generator.integers(0, len(part), 128), generator.integers(0, len(part), 1)
        for index in (generator.permutation(len(part)), twice, one):
            assert torch.equal(part.images(index), images[torch.from_numpy(index)])
            assert torch.equal(part.labels(index), labels[torch.from_numpy(index)])


def test_split():
    """No held-out sample is a training sample."""
    train, held_out = [{image.numpy().tobytes() for image in content(part)[0]} for part in parts(OPTIONS)]
    assert not train & held_out


def test_again():
    """Opened twice, it is the same: it draws from no generator that others use."""
    np.random.seed(0)
    torch.manual_seed(0)
    first = parts(OPTIONS)
    before = [content(part) for part in first]
    np.random.seed(1)
    torch.manual_seed(1)
    for part, again, (images, labels) in zip(first, parts(OPTIONS), before, strict=True):
        assert part.sha256 == again.sha256
        assert torch.equal(content(again)[0], images) and torch.equal(content(again)[1], labels)


def test_fingerprint():
    """`sha256` changes with the content, and not with the place of a file."""
    train, held_out = parts(OPTIONS)
    assert train.sha256 != held_out.sha256
    if MOVED is not None:
        assert [part.sha256 for part in parts(MOVED)] == [train.sha256, held_out.sha256]
    if CHANGED is not None:
        other, _ = parts(CHANGED)
        assert other.sha256 != train.sha256
        assert len(other) != len(train) or not torch.equal(content(other)[0], content(train)[0])
    reads_files = any(place for place, _ in DATA.files(options_of(OPTIONS), True))
    assert not reads_files or (MOVED is not None and CHANGED is not None)


def test_captions():
    """With a `text_shape`, and only then, both parts have captions of it, drawn by seed and sample number alone."""
    shape = options_of(OPTIONS).text_shape
    for part in parts(OPTIONS):
        assert isinstance(part, CaptionedSplit) == (shape is not None)
        if shape is not None:
            index = np.arange(8)
            text, captions = part.text(index, 0, 0), part.captions(index, 0, 0)
            assert text.shape == (8, *shape) and part.empty_text.shape == shape
            assert text.isfinite().all() and part.empty_text.isfinite().all()
            assert len(captions) == 8 and all(isinstance(caption, str) for caption in captions)
            one_by_one = [part.text(index[place : place + 1], 0, place) for place in range(8)]
            assert torch.equal(torch.cat(one_by_one), text) and part.captions(index, 0, 0) == captions


def test_real_images():
    """What samples are compared with is uint8, as many images as it says, in any size of batch."""
    options = options_of(OPTIONS)
    if not DATA.not_comparable(options):
        reference, (channels, side) = opened(OPTIONS).reference, options.picture_shape
        images = torch.cat(list(reference.batches(64)))
        assert images.shape == (len(reference), channels, side, side) and images.dtype == torch.uint8
        assert torch.equal(torch.cat(list(reference.batches(1))), images)


def test_files():
    """`check_files` and `check_all` report no mistake in files that have none."""
    for code in filter(None, (DATA.check_files, DATA.check_all)):
        assert list(named(code)(options_of(OPTIONS), True)) == []
