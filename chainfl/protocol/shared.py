"""Collections whose copies share what neither has changed: a draft of a task costs what an action changes.

The rules use them as they would use a dict and a list.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_GONE: Final[Any] = object()
_UNKNOWN: Final[Any] = object()
_FEW: Final = 32


class SharedMap(MutableMapping[K, V]):
    """A dict whose copies share a base. What is changed lies beside it, until that is as much as a root of it."""

    __slots__ = ("_base", "_changed", "_length")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        """These items, in their order."""
        self._base: dict[K, V] = {}
        self._changed: dict[K, V] = {}
        self._length = 0
        self.update(items)

    def copy(self) -> "SharedMap[K, V]":
        """The same items; changes of one are not seen in the other."""
        if len(self._changed) > _FEW and len(self._changed) ** 2 > len(self._base):
            self._base, self._changed = dict(self.items()), {}
        made: SharedMap[K, V] = type(self).__new__(type(self))
        made._base, made._changed, made._length = self._base, dict(self._changed), self._length
        return made

    def __getitem__(self, key: K) -> V:
        found: V = self._find(key)
        if found is _GONE:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not _GONE

    @overload
    def get(self, key: K) -> V | None:
        """The value of a key, or None."""

    @overload
    def get(self, key: K, default: V | T) -> V | T:
        """The value of a key, or the default."""

    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or the default."""
        found = self._find(key)
        return default if found is _GONE else found

    def __setitem__(self, key: K, value: V) -> None:
        self._length += self._find(key) is _GONE
        self._changed[key] = value

    def __delitem__(self, key: K) -> None:
        if self._find(key) is _GONE:
            raise KeyError(key)
        self._length -= 1
        self._changed[key] = _GONE

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        for key in self._base:
            if self._changed.get(key, _UNKNOWN) is not _GONE:
                yield key
        # New keys after the old ones: the order is that of a plain dict with the same history.
        for key, value in self._changed.items():
            if value is not _GONE and key not in self._base:
                yield key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"

    def _find(self, key: Any) -> Any:
        found = self._changed.get(key, _UNKNOWN)
        return self._base.get(key, _GONE) if found is _UNKNOWN else found


class SharedList(Sequence[T]):
    """A list that only grows. Copies share one list; who appends to a part that is not the whole takes a copy."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        """These items, in their order."""
        self._items = list(items)
        self._length = len(self._items)

    def copy(self) -> "SharedList[T]":
        """The same items; what is appended to one is not seen in the other."""
        made: SharedList[T] = SharedList.__new__(SharedList)
        made._items, made._length = self._items, self._length
        return made

    def append(self, item: T) -> None:
        """Add an item at the end."""
        if len(self._items) != self._length:
            # A copy has appended since: its items are not ours.
            self._items = self._items[: self._length]
        self._items.append(item)
        self._length += 1

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        return self._items[range(self._length)[index]]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return (self._items[index] for index in range(self._length))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | SharedList) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SharedList({list(self)!r})"
