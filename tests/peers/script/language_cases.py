"""Pieces of source for language_test.py. For every construct of the language there are forms that
PyTorch takes and forms that it refuses.

PyTorch says which of the two a piece is. In a block of text each line is a piece, and \\n in it is
a line end.
"""


def lines(text: str) -> list[str]:
    return [line.replace("\\n", "\n") for line in text.strip("\n").split("\n")]


# Bodies of a function that is never called, so that only their syntax counts.
BLOCKS = lines(r"""
if b: return x
for i in xs: pass
for i in xs:\n  pass\nelse:\n  pass
while b:\n  pass\nelse:\n  pass
for i, j in xs:\n  pass
for (i, j) in xs:\n  pass
for i in xs, xs:\n  pass
for i, in xs:\n  pass
with x:\n  pass
with x as y:\n  pass
with x as y, z as w:\n  pass
with (x as y):\n  pass
with x as y, :\n  pass
with x as y.z:\n  pass
def g():\n  pass
def g(a, *, b):\n  pass
def g(a, *b):\n  pass
def g(a, **b):\n  pass
def g(a, /, b):\n  pass
def g(a, *, b, ):\n  pass
def g(*, ):\n  pass
def g(*):\n  pass
def g(a=1, b):\n  pass
def g(a, a):\n  pass
def g(a):\n  # type: (int) -> int\n  pass
def g(a): # type: (int) -> int\n  pass
def g(a): return a
@foo\ndef g(a):\n  pass
class A:\n  pass
async def f():\n  pass
try:\n  pass\nexcept:\n  pass
if a:\n  pass\nelif b:\n  pass\nelse:\n  pass
if a:\n  pass\nelse if b:\n  pass
if a:\n  pass\n # odd comment\n  pass
if a:\n    pass\n  pass
if a:\npass
match x:\n  case 1:\n    pass
for i in j for k in l:\n  pass
for i in *x:\n  pass
for *i in x:\n  pass
for i, *j in x:\n  pass
for i.j in x:\n  pass
for in x:\n  pass
for i in:\n  pass
for i in x, :\n  pass
for i in (x):\n  pass
for i if j else k in x:\n  pass
for i == j in x:\n  pass
for i or j in x:\n  pass
for i\n  pass
with:\n  pass
with x as:\n  pass
with x as (y, z):\n  pass
with x as y: pass
with x, y:\n  pass
with (x, y):\n  pass
while x, y:\n  pass
if x, y:\n  pass
if x:\n  pass\nelif:\n  pass
else:\n  pass
elif x:\n  pass
if x:\n  pass\nelse:\n  pass\nelse:\n  pass
if x:\n  pass\nelse:\n  pass\nelif y:\n  pass
if x:\nelse:\n  pass
if x:\n  # c\nelse:\n  pass
if x :\n  pass\nelse :\n  pass
if x:\n    pass\n    pass\npass
@a\ndef g(): pass
def g():\n  def h():\n    return 1\n  return h\nreturn g
if (x, ):\n  pass
""")

SIMPLE_STATEMENTS = lines(r"""
return x if b else x
return [i for i in xs]
return [i for i in xs if i]
return sum(i for i in xs)
return {i: i for i in xs}
return {1, 2}
lambda = 3
yield
yield x
lambda x: x
return
raise x
raise
raise X("a")
raise X("a") from y
assert x, "m"
assert x, "m",
del x
del x, y
global q
pass # type: foo
import foo
from foo import bar
return *x
return x, y
return (x, y)
return x,
await x
nonlocal x
# comment only
pass
break
continue
return b for c in d
return x y
return (x
return x)
return return
return *x, y
return x if y else
pass pass
break 1
continue x
assert
assert (x, 'm')
assert x,
raise x, y
del
del x,
del (x, y)
del x.y
del x[0], y
del x + y
global
global x,
global x, y
global x.y
import a
#  type: (int) -> int\nreturn
return x, if
import
""")

ASSIGNMENTS = lines(r"""
try = 3
x.foo(1, a=2, 3)
x = y = z
x, y = y, x
x, *y = z
*x, y = z
x, *y, z = w
(x, y) = z
[x, y] = z
x += 1
x, y += 1
x //= 2
x @= 2
x **= 2
x >>= 2
x: int
x: int = 3
x.y: int = 3
x.y = 3
x[0] = 3
f(a=*x)
x = *y
x = *y, z
é = 1
x = inf
x = Ellipsis
x = NoneType
x = $a
x = !a
x := 3
x = lambda y: y
type = 3
x += y = z
x = y += z
f(x) = 3
None = x
x: (int) = 3
x: int | None = 3
x = CONSTANTS.c0
x = __torch__.foo.bar(x, )
  x = 1
def = 1
x =
x = = y
x = y =
x +=
x += y, z
x.y += 1
x[0] += 1
f() += 1
(x) += 1
(x, y) += 1
[x] += 1
x |= 1
x &= 1
x ^= 1
x <<= 1
x %= 1
x -= 1
x /= 1
x *= 1
x : int = y = z
x = y : int = z
x : int, y : int = z
x, y : int = z
x : int, int = z
x : = z
x :
x : int = y, z
x : int = *y
x = y, z = w
x = *y, z = w
*x = y
*x, *y = z
x, = y
x, (y, z) = w
() = w
x if y else z = w
x : int += 1
x += 1 += 2
op_version_set = 3
x, += 1
x, : int
x, = = y
x = y, else
x = y, # c
x += y,
x, y, = z
x = y, )
x = y, ,
x = y, and
x = y, in z
x = y, not in z
x = y, not z
x = y, *z
x = y, -z
x = y, ~z
x = y, + z
x = y, is z
x = y, import
x = y, pass
""")

COMPREHENSIONS = lines(r"""
y = i for i in xs
f(x for x in y)
a if b else c for d in e
[a for b, c in d]
[a for b in c for d in e]
[(a, b) for b in c]
[a, b for b in c]
[a, b for b in c, d]
{a: b for c in d if e}
{a: b for c, d in e}
x = a[b for b in c]
x = (a for b in c)
a = [b for (c, d) in e]
a = [b for [c, d] in e]
a = [b for c.d in e]
a = [b for c + d in e]
a = [b for c == d in e]
a = [b for not c in e]
a = [b for -c in e]
a = [b for *c in e]
a = [b for in e]
a = [b for c in]
a = [b for c in d, ]
a = [b for c in d if e else f]
a = [b if c else d for e in f]
a = [(b for c in d), e]
a = [e, (b for c in d)]
a = [(b for c in d)]
a = f(b for c in d, e)
a = b + c for d in e
a = b for c in d + e
a = b for c in d if e else f
a = b for c in d for e in f
a = -b for c in d
a = not b for c in d
a = b if c else d for e in f for g in h
b for c in d
a = {b for c in d}
a = {b: c for d in e for f in g}
a = {b: c for (d, e) in f}
a = {b: c for d in e, }
a = {b: c, d: e for f in g}
a = {b: c for d in e, f: g}
a = {b for c in d: e}
a = {b: (c for d in e)}
a = {b: (c for d in e), f: g}
""")

LITERALS = lines(r"""
x = 3 # type: int
x = 3 # type: ignore
x = 1; y = 2
x = 1,
2 ** -1
-2 ** 2
x = "a" "b"
x = f"a"
x = r"a"
x = b"a"
x = u"a"
x = "é"
x = 0x10
x = 0x1F
x = 0b11
x = 0o17
x = 017
x = 1_000
x = 1.
x = .5
x = 1e5
x = 1E-5
x = 1e
x = 5j
x = 1.5j
x = 5J
x = 0x
x = 99999999999999999999
x = 1if b else 2
x = 1 .foo
x = 1..foo
"doc"
1
...
1 = x
x: "int" = 3
x: List["int"] = 3
x = "a
x = 1)
x = 1 # comment
a = ')'
a = '#'
a = 'it''s'
a = ''
a = 'a'\n'b'
a = 'a'.b
a = 'a' [0]
a = ....b
a = 1(2)
a = 1[2]
a = 'a'(2)
a = -1[2]
a = x.'a'
a = .x
1 += 1
'a' = w
x = 1 : int
1 : int
a = 1e+5
a = 1e+
a = 1.e
a = 1.5.5
a = 0x.8
a = 0xg
a = 0X1f
a = 0x1p-3
a = 0x1.8
a = 1jj
a = 1ja
a = 1j.b
a = .5.b
a = 1.j
a = .j
a = 1and 2
a = 1or 2
a = 1 if 2else 3
a = 1in x
a = 0x1for
a = 1_0
a = 1l
a = 00
a = 0xEp1
a = 1\n  b = 2
a = 1 `
a = .. .
a = ...
a = ... .y
'doc' 'more'\nreturn x
a = 'a' + 'b' 'c'
a = 'a' f'b'
a = x 'b'
""")

OPERATORS = lines(r"""
a < b < c
a in b
a not in b
a not  in b
a is not b
a is  not b
a is b
not a
a = not inside
~a
a = b if c else d if e else f
a = b if c
a and b or c
+a
x = a.in
x = a <> b
x = a <=> b
x = -a.b
x = not not a
x = - - a
x = ~ - a
x = a - - b
x = a * -b
x = a ** b ** c
x = a @ b
x = a // b % c
x = a << b >> c
x = a | b ^ c & d
x = a <= b == c != d >= e > f
x = a is None
a = not
a = not x in y
a = b not in c not in d
a = b + not c
a = b * ~c + d
a = b == not c
a = * b
a = b * * c
a = b ** * c
a = b ** not c
a = b ** ~ c
a = - not b
a = *b if c else d
a = b if *c else d
a = **b
a = b and c if d else e or f
a = b if c else d, e
a = b, c if d else e
a = b if c if d else e else f
x -> 1
x + y = w
a = x is nothing
a = x not inside
a = x is not not y
a = @x
a = x @@ y
a = x && y
a = x || y
a = x++
a = x--
a = x--y
a = x->y
a = x=>y
""")

BRACKETS = lines(r"""
x[]
x[1:2:3, None, ..., :]
x[::]
x[:, ]
x[0]: int = 3
foo() # type: int
x = (1,)
x = ()
x = (1, 2, )
f(*x)
f(**x)
f(x, )
f(, )
[*a, b]
{**a}
{a: b, }
{a: b, c}
{}
x = a.foo.bar().baz[0](1)
x = (a\n  + b)
x = [\n1,\n2,\n]
print(x := 3)
x = a[b:c, d:e]
x = a[b, c:d:e, ]
x = a[*b]
x = (yield)
x = a(b)(c)
x = -a[0]
x = (a, b), c = d
x = f(a)(b=c, **d)
x = f(a=1, a=2)
x = f(a = 1)
x = f((a) = 1)
x = (1
x = [1)
x = {1: 2]
a = (1).b
a = [1][0]
a = {}[0]
a = True.b()
a = ()()
a = x(True=1)
a = x(b=)
a = x(b c)
a = x(b, , c)
a = [, ]
a = (, )
a = [1 2]
a = {, }
a = {b}
a = {b: }
a = {b if c else d: e}
a = {b: *c}
a = {*b: c}
a = {b: c, d}
a = b[c, ]
a = b[:c:]
a = b[::c]
a = b[:::]
a = b[c:d:e:f]
a = b[, ]
a = b[c: :d]
a = b[(c, d)]
a = b[c:=d]
a = b[c: d if e else f]
a = b[c=d]
a = b[*c:d]
(x, y) : Tuple[int, int] = z
x() : int
(x : int)
a = not(x)
a = x is(y)
a = x is not(y)
a = (x)in(y)
a = (x)not in(y)
(x, ]
x = (y, = z)
x = (y, :)
x = [y, ), z
x = (,)
""")

REST = lines(r"""
x = a.None
x = a . b
x = a ? b
x == y
x
x;
x = a.type
x = a.b = c
a = None.b
a = NoneType.b
a = x.1
a = x.
a = x.Ellipsis
a = x.NoneType
a = x.global
= x
x == y = z
x, y
x, y,
a = x isnot y
a = notx
a = x ! y
a = x != y
a = x === y
a = x..y
a = x...y
a = x...
a = x:y
""")

# Bodies with bytes that a line of text cannot show.
ODD_BODIES = [
    'x = "a\\x41"',
    'x = "a\\u0041"',
    'x = "a\\r"',
    'x = "a\\101"',
    'x = "a\\8"',
    'x = "a\\q"',
    'x = "a\\477"',
    'x = "a\\0"',
    'x = "\\\'\\"\\\\\\a\\b\\f\\n\\t\\v"',
    "x = a \\\n  + b",
    "x = a + \\\n\n y",
    "x = a if b else\\\n c",
    "if (a):\n\tpass",
    'x = """a\\nb"""',
    'x = "a\\\nb"',
    "\fx = 1",
    "x =\f1",
    "a = x is\tnot y",
    "a = x not\tin y",
    "a = 1\r  b = 2",
    "a = 1\x0b",
    "a = 1\x00",
    "a = 1\x1f",
    "a = 1\xa0",
    "# \x00\na = 1",
    "a = '\x00'",
    'def g(a):\n  """doc"""\n  pass',
    'def g(a):\n  """doc"""',
    'x = \'a\' "b" """c"""',
    'x = """a',
    "a = ''''",
    "a = ''''''",
    "a = '''a'b''c'''",
    "a = '''\nb = 1\n'''",
    "'''doc'''\nreturn x",
]

# Texts after a file's first class.
TAILS = [
    "def f(x): if x:\n  pass\n",
    "def f(x): for i in x:\n  pass\n",
    "def f(x): def g(): return 1\n",
    "def f(x): # type: (int) -> int\npass\n",
    "def f(x): # type: (int) -> int\nreturn x\ndef g(): return 2\n",
    "def f(x): # type: (int) -> int return x\n",
    "def f(x):\n  pass\n  # type: (int) -> int\n",
    "def f(x): x\nx\n",
    "def f(x): pass\n  y\n",
    "def f(x):\n\n",
    "def f(x):\n",
    "def f(x):",
    "class A:\n  def f(self): return 1\n  def g(self): return 2\n",
    "class A:\n  def f(self): # type: () -> int\n  return 1\n",
    "class A:\n  x : int\n  def f(self):\n    # type: () -> int\n    return 1\n",
    "def f(x):\n  x = 1 \\\n\n",
    "def f(x):\n  x = 1 \\\n  \n",
    "def f(x):\n  x = (1\n# c\n)\n",
    "def f(x):\n  x = 1 # c \\\n  y\n",
    "def f(x):\n  \\\n  return x\n",
    "def f(x):\n  return \\\nx\n",
    "def f(x):\n  return x \\ \n",
    "def f(x):\n  a = 'a\nb'\n",
    "def f(x):\n  a = '\\'\n",
    "def f(x):\n  a = '\\''\n",
    "def f(x):\n  a = ('a'\n 'b')\n",
    "def f(x):\n  a = 'a' \\\n 'b'\n",
    "def f(None):\n  pass\n",
    "def f(x):\n  a = {\n b: c}\n",
    "def f(x):\n  if x:\n    pass\n\n\n\n  else:\n    pass\n",
    "def f(x):\n\ta = 1\n        b = 2\n",
    "def f(x):\n\ta = 1\n b = 2\n",
    "def f(x):\n  a = 1\n\n    \n  b = 2\n",
    "def f(x):\r\n  a = 1\r\n  b = 2\r\n",
    "def f(x):\n  a = 1\f\n\f\n",
    "def f(x):\n  a = \\x\n",
    "def f(x):\n  a = '\\1'\n",
    "def f(x):\n  a = '\\12'\n",
    "def f(x):\n  a = '\\123'\n",
    "def f(x):\n  a = '\\400'\n",
    "def f(x):\n  a = '\\377'\n",
    "def f(x):\n  a = '\\N{x}'\n",
    "def f(x):\n  a = '\\\xe9'\n",
    "def f(x):\n  a = '\\x'\n",
    "def f(x):\n  a = '\\u'\n",
    "def f(x):\n  a = '\\U'\n",
    "def f(x):\n  a = '\\ '\n",
    "def f(x):\n  a = '\\0011'\n",
    "def f(x):\n  a = '''\\\n'''\n",
    "def f(x):\n  a = '\\\r\n'\n",
    "def f(self : A, x : int=CONSTANTS.c0) -> Tuple[int, int]:\n  return x\n",
    "def f(x, *, y):\n  # type: (int, int) -> int\n  return x\n",
    "def f(*, y):\n  # type: (*, int) -> int\n  return x\n",
    "def f():\n  # type: () -> None\n  return\n",
    "def f(x):\n  # type: (x=3) -> None\n  return\n",
    "def f(x):\n  # type: (x: int) -> None\n  return\n",
    "def f(x):\n  # type: (int) -> int, int\n  return\n",
    "def f(x):\n  # type:(int) -> int\n  return\n",
    "def f(x):\n  # type : (int) -> int\n  return\n",
    "def f(x):\n  # type: (int) -> int\n  # type: (int) -> int\n  return\n",
    "def f(x):\n  # type: (int)\\\n  -> int\n  return\n",
    "def f(x):\n  # type: (\n  int) -> int\n  return\n",
    "def f(x): -> int\n  return\n",
    "def f(x) -> int\n  return\n",
    "def f(x) - > int:\n  return\n",
    "def f(x) ->:\n  return\n",
    "def f(x)->int :\n  return\n",
    "def f (x) :\n  return\n",
    "def f(x\n):\n  return\n",
    "def f(\nx,\n\n# c\ny):\n  return\n",
    "def f(x=):\n  return\n",
    "def f(x:):\n  return\n",
    "def f(x: int = 3 = 4):\n  return\n",
    "def f(x, , y):\n  return\n",
    "def f(, x):\n  return\n",
    "def f(x *):\n  return\n",
    "def f(x: int, y: List[int]=[1, 2], z: str='a'):\n  return\n",
    "def f(x.y):\n  return\n",
    "def f.g(x):\n  return\n",
    "def f[T](x):\n  return\n",
    "class A[T]:\n  x : T\n",
    "class A(B, ):\n  x : T\n",
    "class A(B=C):\n  x : T\n",
    "class A(*B):\n  x : T\n",
    "class A(B\n):\n  x : T\n",
    "class A B:\n  x : T\n",
    "class A.B:\n  x : T\n",
    "class A : \n  x : T\n",
    "class A(B)\n  x : T\n",
    "class A:\n  x : T\n y : T\n",
    "class A:\n  x : T",
    "def f(): pass",
    "def f(): pass\n\\",
    "def f(): pass\n#",
    "import",
    "import \\\n a\nclass B:\n  x : int\n",
    "import a\n  class B:\n    x : int\n",
    "import (a\n,b)\nclass B:\n  x : int\n",
    "import class B\nclass C:\n  x : int\n",
    "import 'a\nclass C:\n  x : int\n",
    "import a;b\nclass C:\n  x : int\n",
    "  def f(): pass\n",
    "(",
    ")",
    "[",
    "class A:\n  x : int\n)",
    "def f(x):\n  x = y,\\\n\n\n",
    "def f(x):\n  x = (y, \n)\n",
    "def f(x):\n  # type: (int) -> int return x\n",
    "def f(x):\n  # type: (int) return x\n",
    "def f(x):\n  # type: (int) -> int x\n  y\n",
    "def f(x): 'doc'\n",
    "def f(x):\n  # type: (int) -> int\n\n\n  y\n",
    "def f(x):\n  # type: (int) -> int\n    y\n",
    "def f(x): # type: (int) -> int if x:\n  pass\n",
    "def f(x):\n  # type: (int) -> int # type: (int) -> int\n  y\n",
    "def f(x):\n    # type: (int) -> int\n  y\n",
    "def f(x):\n  # type: (int,\n  ) -> int\n  y\n",
    "def f(*):\n  # type: () -> int\n  return 1\n",
    "import\nimport\nclass M(Module):\n  def forward(self, x: Tensor):\n    return x\n",
    "import\n  x\nclass M(Module):\n  def forward(self, x: Tensor):\n    return x\n",
    "def f(): pass\ndef f(): pass\n",
    "class f:\n  x : int\ndef f(): pass\n",
    "def f(x):\n  y =\\\n1\n",
    "def f(x):\n  y = 1 # c\\\n",
    "def f(x):\n  if y:\n    z\n # c",
    "def f(x):\n  if y:\n    z\n ",
    "def f(x):\n  if y:\n    z\n\\\n",
    "def f(x):\n  if y:\n    z\n  \\\n",
    "def f(x):\n  if y:\n    z\n  \\\n  w\n",
    "def f(x):\n  y\\\n",
    "def f(x):\n  y\n\n\n",
    "def f(x):\n  y\n\t",
    "def f(x):\n  y\n\r",
    "def f(x):\n  y\n\x00",
    "def f(x):\n  # type: (int) ->\\\n int\n  y\n",
]

# Texts before a file's first class.
HEADS = [
    "",
    "\n\n",
    "# comment\n",
    "  # comment\n",
    "\r\n",
    "op_version_set = 1\n",
    "op_version_set=3\n\n",
    "\n# comment\nop_version_set = 0\n",
    "op_version_set = 0x1\n",
    "op_version_set = 1.5\n",
    "op_version_set = 1\nop_version_set = 2\n",
    "op_version_set = x\n",
    "op_version_set\n",
    "import torch\n",
    "import __torch__.foo\n",
    "import a\nimport b\n",
    "import a, b\n",
    "import a as b\n",
    "import a.b.c # comment\n",
    "import\n",
    "op_version_set = 1\nimport __torch__.foo\n",
    "import a\nop_version_set = 1\n",
    "from a import b\n",
    "x = 3\n",
    "x: int\n",
    "pass\n",
    '"""doc"""\n',
    "\ufeff",
    "if x:\n  pass\n",
    "@dec\n",
    "print(1)\n",
]

CLASS_BASES = [
    "",
    "(Module)",
    "(NamedTuple)",
    "(Enum)",
    "(Interface)",
    "(ModuleInterface)",
    "(object)",
    "(torch.nn.Module)",
    "((Enum))",
    "(A)",
]

# Bodies of a class that the file's first class uses.
CLASS_BODIES = [
    *lines(r"""
pass
pass\nx : int
'doc'
x : int
x : int = 3
x : int\nx : float
x : Final[int] = 3
x : Final[int] = 1 + 2
x : Final[int] = 1\nx : int
x : Final[int] = 1\nx : Final[int] = 2
x : Final = 3
x : Foo[int] = 3
x : __torch__.Final[int] = 3
x : Final[Tuple[int, int]] = (1, 2)
x : Final[List[int]] = [1, 2]
x : Final[float] = inf
x : Final[str] = 'a' 'b'
x : Final[None] = None
x : Final[Device] = torch.device('cpu')
x : Optional[int] = None
x : __torch__.M
x = 3
x = y = 3
x, y = 1, 2
x += 1
x.y : int
del x
if a:\n  pass
return
foo(1)
training : bool
_is_full_backward_hook : Optional[bool]
__parameters__ = []
__parameters__ = []\n__parameters__ = []\nx : int
__parameters__ = ['x', ]\nx : Tensor
x : Tensor\n__parameters__ = ['x']
__parameters__ = ['missing', ]
__parameters__ = ('x',)\nx : Tensor
__parameters__ = [3]
__parameters__ = [a]
__parameters__ = [['a']]
__parameters__ = ['a' 'b']
__parameters__ = x
__parameters__ : int = []
__parameters__ : List[str]
__parameters__ += ['x']
__buffers__ = ['x']\nx : Tensor
__forward_hooks__ = []
__forward_pre_hooks__ = []
__annotations__ = []\n__annotations__['0'] = int
__annotations__['0'] = int
__annotations__['0'] : int = int
__annotations__['0', '1'] = int
__annotations__[0] = int
__annotations__[''] = int
__annotations__['a.b'] = List[int]
__annotations__ = {}
__annotations__ = 3
y['0'] = int
'0' : int
__foo__ = 3
__constants__ = ['x']
def f(self) -> int:\n  return 1
def f(self) -> int:\n  return 1\ndef f(self) -> int:\n  return 2
def f() -> int:\n  return 1
x : int\ndef x(self) -> int:\n  return 1
def f(self) -> int:\n  def g(): return 2\n  return 3
def f(self) -> int:\n  pass
def f(self) -> int: pass
def f(self) -> int:\n  'doc'\n  pass
def f(self):\n  pass
def f(self) -> int:\n  pass\ndef f(self) -> int:\n  pass
def f(self, x):\n  # type: (int) -> int\n  pass
def f(self, x):\n  # type: (int)\n  pass
def f(self) -> int:\n  return 1\n  pass
RED = 1\nBLUE = 2
RED = 1\nRED = 2
RED = 1\nBLUE = 1
RED = 'r'\nBLUE = 2
RED = 'r'\nBLUE = 'b'
RED = -1
RED = 1.5\nBLUE = -2.5
RED = (1)
RED = (1, 2)
RED = 1 + 2
RED = True
RED = 1j
RED = inf
RED = CONSTANTS.c0
RED : int = 1
x : int\nRED = 1
"""),
]

# Expressions of the ints a to e. PyTorch's result shows how their operators group.
EXPRESSIONS = lines(r"""
a + b * c - d
a - b - c
a * b // c % d
a ** b ** 2
-a ** 2
2 ** -1
- -a
-a * b
~a + b
~a & b
a & b | c ^ d
a << b + 1
a << 1 << 2
a | b == c
a < b == True
a == b or c == d and a == e
not a == b
not a == b or c == d
a if b == 1 else c if d == 1 else e
a == 1 or b == 1 if c == 1 else d == 1
(a, b)[0] + c
a - -b
a - (b - c)
(a + b) * c
-(a + b)
-1 ** 2
(-1) ** 2
[i + 1 for i in [a, b]]
[[i for i in [a, b]]]
{a: [i for i in [b, c]]}
sum(i * 2 for i in [a, b])
[a, b, c][1:][0]
[a, b][-1]
a in [b, c]
a not in [b, c]
a is None
a is not None
0x1F + 017 + 1
0x1E
'a\101' "b" '''c'''
(a, b, )
(a,)
[a, b for c in [d]][0]
{1: a, 2: b}
""")
