"""Hand-written programs that fork functions, which Tenon's bytecode runs at once."""

from typing import Any

from handwritten_kit import program


def forking(name: str, returns: str, body: str, **more: Any) -> None:
    program(name, returns, body, switch="forks_at_once", **more)


forking("fork_of_an_operator", "Tensor", "return torch.wait(fork(torch.neg, x))")
forking("wait_as_a_method", "Tensor", "f = fork(torch.add, x, x, alpha=3)\nreturn f.wait()")
forking(
    "fork_of_functions_and_methods",
    "Tuple[int, int, str]",
    """
    a = fork(__torch__.half, n)
    b = fork(self.double, n + 1)
    c = fork(__torch__.shown, n, mark="!")
    return (torch.wait(a), torch.wait(b), torch.wait(c))
    """,
    before="""
    def half(n: int) -> int:
      if n % 2 == 0:
        return n // 2
      return -n
    def shown(n: int, width: int=3, mark: str="?") -> str:
      return str(n + width) + mark
    """,
    methods="""
    def double(self, n: int) -> int:
      return n * 2
    """,
)
forking(
    "nested_functions",
    "Tuple[int, Tensor, List[int]]",
    """
    k = n + 1
    def with_variables():
      m = k * 2
      for i in range(3):
        m = m + i
      return m
    a = fork(with_variables)
    def early():
      if n > 2:
        return [n]
      return [n, k]
    b = fork(early)
    def with_tensors():
      return torch.mul(x, torch.wait(a))
    c = fork(with_tensors)
    return (torch.wait(a), torch.wait(c), torch.wait(b))
    """,
)
forking(
    "a_fork_within_a_fork",
    "int",
    """
    def outer():
      k = n + 1
      def inner():
        return k * n
      future = fork(inner)
      return torch.wait(future) + 1
    return torch.wait(fork(outer))
    """,
)
forking(
    "futures_in_a_list",
    "List[int]",
    """
    futures = annotate(List[Future[int]], [])
    for i in range(n):
      def square():
        return i * i
      futures.append(fork(square))
    futures.append(fork(torch.len, l))
    return [torch.wait(one) for one in futures]
    """,
)
forking(
    "futures_in_other_containers",
    "int",
    """
    one = fork(torch.len, s)
    d = {"a": one, "b": fork(torch.len, l)}
    t = (one, n)
    o : Optional[Future[int]] = None
    if n > 2:
      o = one
    total = torch.wait(d["a"]) + torch.wait(d["b"]) + torch.wait(t[0])
    if o is not None:
      total = total + torch.wait(o)
    return total
    """,
)
forking(
    "futures_handed_to_a_method",
    "int",
    """
    return self.sum_of([self.start(n), self.start(n + 1)])
    """,
    methods="""
    def double(self, n: int) -> int:
      return n * 2
    def start(self, n: int) -> Future[int]:
      return fork(self.double, n)
    def sum_of(self, futures: List[Future[int]]) -> int:
      total = 0
      for one in futures:
        total += torch.wait(one)
      return total
    """,
)
forking(
    "fork_of_constants",
    "Tuple[int, str, Optional[int]]",
    """
    a = fork(__torch__.number, n)
    b = fork(__torch__.text, n)
    return (torch.wait(a), torch.wait(b), torch.wait(fork(__torch__.nothing, n)))
    """,
    before="""
    def number(n: int) -> int:
      return 3
    def text(n: int) -> str:
      return "t"
    def nothing(n: int) -> Optional[int]:
      return None
    """,
)
forking(
    "fork_of_what_has_several_results",
    "Tuple[Tensor, int]",
    """
    def several():
      return (torch.neg(x), n)
    a, b = torch.wait(fork(several))
    return (a, b)
    """,
)
forking(
    "a_forked_function_raises",
    "int",
    """
    def odd():
      if n % 2 == 1:
        raise AssertionError("odd")
      return n
    return torch.wait(fork(odd))
    """,
)
forking(
    "fork_under_a_condition",
    "int",
    """
    f = fork(torch.len, l)
    if b:
      f = fork(torch.len, s)
    while n < 3:
      n += 1
      f = fork(torch.len, d)
    return torch.wait(f)
    """,
)
