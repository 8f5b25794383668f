"""The cells of composites (README.md, "Composites")."""

from __future__ import annotations

import struct
from collections.abc import Callable

import account
from cells import Pair, compare, gives_back, pattern, same
from programs import Failed, NotApplicable, Program


def numbers_of(kind: str, *values: float) -> bytes:
    return struct.pack(f"<{len(values)}{kind}", *values)


class Composite:
    """The composite of one row.

    Numbers that are not given are 0. `sizes` are the sizes that the receiver must find.
    """

    NUMBERS = (
        "offset",
        "dtype",
        "flags",
        "scale",
        "zero_point",
        "axis",
        "ragged_dim",
        "quantizer",
        "coalesced",
    )

    def __init__(
        self,
        layout: int,
        sizes: tuple[int, ...],
        parts: dict[str, tuple[str, tuple[int, ...], bytes]],
        *,
        wrong: bool = False,
        **given: object,
    ) -> None:
        """Take the parts: dtype, sizes and bytes by name, in the order of C's struct.

        wrong: tenon_composite_check must refuse the composite.
        """
        self.sizes, self.parts, self.wrong = sizes, parts, wrong
        self.strides: tuple[int, ...] = given.pop("strides", ())  # type: ignore[assignment]
        dtype = parts["values"][0] if parts else "0:0:0"
        self.numbers = {"layout": layout, **dict.fromkeys(self.NUMBERS, 0), "dtype": dtype, **given}

    @property
    def values(self) -> bytes:
        return self.parts["values"][2] if self.parts else b""

    def write(self, seed: int) -> None:
        """Note that a program wrote the values."""
        dtype, sizes, data = self.parts["values"]
        self.parts = {**self.parts, "values": (dtype, sizes, pattern(seed, len(data)))}

    def words(self) -> list[str]:
        """The words of COMPOSITE, which a program reads and writes."""
        dims = [",".join(map(str, dims)) or "-" for dims in (self.sizes, self.strides)]
        said = [
            str(self.numbers["layout"]),
            *dims,
            *(str(self.numbers[name]) for name in self.NUMBERS),
        ]
        return said + [
            f"{name}={dtype}/{','.join(map(str, sizes)) or '-'}/{data.hex() or '-'}"
            for name, (dtype, sizes, data) in self.parts.items()
        ]

    def same(self, program: Program, says: list[str]) -> None:
        """Compare a program's words for its composite with what was sent."""
        wanted = self.words()
        same(f"{program.name}: how many words describe the composite", len(says), len(wanted))
        names = ("layout", "sizes", "strides", *self.NUMBERS)
        for name, got, word in zip((*names, *self.parts), says, wanted, strict=True):
            if name == "scale":
                same(f"{program.name}: scale", float(got), float(word))
            else:
                same(f"{program.name}: {name}", got, word)


F32, F64, I32, I64, U8 = "2:32:1", "2:64:1", "0:32:1", "0:64:1", "1:8:1"


def compressed(
    layout: int,
    sizes: tuple[int, ...],
    values: tuple[int, ...],
    pointers: bytes,
    plain: bytes,
    **given: object,
) -> Composite:
    count = len(plain) // 8
    nbytes = 4
    for size in values:
        nbytes *= size
    parts = {
        "values": (F32, values, pattern(layout, nbytes)),
        "indices": (I64, (len(pointers) // 8,), pointers),
        "plain_indices": (I64, (count,), plain),
    }
    return Composite(layout, sizes, parts, **given)  # type: ignore[arg-type]


def composites() -> dict[str, Composite]:
    """Make a composite for each layout, by the name of its row. One more has an index that is too
    large.
    """
    three, pointers, plain = pattern(1, 12), numbers_of("q", 0, 2, 2, 3), numbers_of("q", 0, 3, 1)
    return {
        "coo": Composite(
            1,
            (2, 5, 2),
            {
                "values": (F64, (3, 2), pattern(2, 48)),
                "indices": (I32, (2, 3), numbers_of("i", 0, 0, 1, 1, 4, 0)),
            },
            coalesced=2,
        ),
        "csr": compressed(2, (3, 4), (3,), pointers, plain, flags=1),
        "csc": compressed(4, (4, 3), (3,), pointers, plain, flags=2),
        "bsr": compressed(5, (6, 12), (3, 2, 3), pointers, plain),
        "bsc": compressed(6, (8, 9, 2), (3, 2, 3, 2), pointers, plain),
        "jagged": Composite(
            7,
            (3, -1, 2),
            {
                "values": (F32, (6, 2), pattern(3, 48)),
                "offsets": (I64, (4,), numbers_of("q", 0, 2, 2, 6)),
                "lengths": (I64, (3,), numbers_of("q", 1, 0, 4)),
            },
            ragged_dim=1,
        ),
        "nested": Composite(
            64,
            (2, -1, -1),
            {
                "values": (F32, (12,), pattern(4, 48)),
                "offsets": (I64, (2,), numbers_of("q", 0, 6)),
                "component_sizes": (I64, (2, 2), numbers_of("q", 2, 3, 3, 2)),
                "component_strides": (I64, (2, 2), numbers_of("q", 3, 1, 1, 3)),
            },
        ),
        "quantized per tensor": Composite(
            66,
            (3, 4),
            {"values": (U8, (3, 4), pattern(5, 12))},
            quantizer=1,
            scale=0.1,
            zero_point=-(1 << 40),
        ),
        "quantized per channel": Composite(
            66,
            (2, 3),
            {
                "values": (U8, (2, 3), pattern(6, 6)),
                "scales": (F64, (3,), numbers_of("d", 0.5, 0.25, 0.1)),
                "zero_points": (I64, (3,), numbers_of("q", 0, -1, 128)),
            },
            quantizer=2,
            axis=1,
            flags=3,
        ),
        "meta": Composite(
            65, (1 << 40, 3), {}, strides=(1, -7), offset=21, dtype="4:16:1", flags=1
        ),
        "with a wrong index": Composite(
            1,
            (2, 4),
            {
                "values": (F32, (3,), three),
                "indices": (I64, (2, 3), numbers_of("q", 0, 0, 1, 1, 4, 0)),
            },
            wrong=True,
        ),
    }


# The report's rows for composites.
COMPOSITES = {f"composite {name}": name for name in composites()}


class Sent:
    """The composites of one message. Both programs hold them until drop()."""

    def __init__(self, pair: Pair, rows: list[str]) -> None:
        self.producer, self.consumer = producer, consumer = pair.programs
        every = composites()
        self.keys = {row: (pair.key(), every[COMPOSITES[row]]) for row in rows}
        self.connection = pair.connect("tenon")
        keys = [key for key, _ in self.keys.values()]
        for row, (key, composite) in self.keys.items():
            try:
                producer.ask("compose", key, *composite.words())
            except Failed as error:
                raise Failed(f"{row}: {error}", error.status) from None
        consumer.begin("receive", self.connection, *keys)
        producer.ask("send", self.connection, *keys)
        same(
            f"{consumer.name}: the names of the composites",
            consumer.end(),
            [f"c{key}" for key in keys],
        )

    def run(self, row: str) -> None:
        """Compare one composite before and after the receiver's check.

        The check copies no values: what one side writes then, the other side reads.
        """
        key, composite = self.keys[row]
        composite.same(self.consumer, self.consumer.ask("composite", key))
        if composite.wrong:
            self.consumer.refuses("CORRUPT", "check", key)
            return
        self.consumer.ask("check", key)
        composite.same(self.consumer, self.consumer.ask("composite", key))
        if not composite.values:
            return
        for seed, writer, reader in (
            (23, self.consumer, self.producer),
            (29, self.producer, self.consumer),
        ):
            writer.ask("write", key, seed)
            composite.write(seed)
            compare(
                reader, f"what {writer.name} wrote", reader.ask("read", key)[0], composite.values
            )

    def drop(self) -> None:
        for program in (self.consumer, self.producer):
            for key, _ in self.keys.values():
                program.ask("drop", key)
            program.ask("close", self.connection)


def run_composites(
    producer: Program,
    consumer: Program,
    names: account.Names,
    cell: Callable[[str, Callable[[], None]], object],
) -> None:
    """Run the cells of all layouts, with one message.

    cell(row, act) runs an act that belongs to one row alone.
    """
    if producer.language.is_torch or consumer.language.is_torch:
        raise NotApplicable(
            "PyTorch has no Tenon connection; its composites are in the tests of tenon.torch"
        )

    def all_rows(pair: Pair) -> None:
        sent = Sent(pair, list(COMPOSITES))
        for row in COMPOSITES:
            cell(row, lambda row=row: sent.run(row))  # type: ignore[misc]
        sent.drop()

    gives_back(
        producer, consumer, names, lambda pair: Sent(pair, list(COMPOSITES)[:1]).drop(), all_rows
    )
