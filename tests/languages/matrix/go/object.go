package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"libtenon/tenon"
)

// keepOver holds the tensor that the words DTYPE SIZES STRIDES OFFSET describe.
func (p *peer) keepOver(key string, storage *tenon.Storage, words []string) error {
	tensor, err := over(storage, words)
	if err == nil {
		p.kept[key] = &kept{tensor: tensor}
	}
	return err
}

func (p *peer) tensor(words []string) (string, error) {
	nbytes, err := strconv.Atoi(words[1])
	if err != nil {
		return "", err
	}
	data, err := pattern(words[2], nbytes)
	if err != nil {
		return "", err
	}
	storage, err := tenon.NewStorageFrom(data, nil)
	if err != nil {
		return "", err
	}
	defer storage.Close()
	return "", p.keepOver(words[0], storage, words[3:])
}

func (p *peer) view(words []string) (string, error) {
	storage, err := p.kept[words[1]].tensor.Storage()
	if err != nil {
		return "", err
	}
	defer storage.Close()
	return "", p.keepOver(words[0], storage, words[2:])
}

func realOf(digits string) (float64, error) {
	bits, err := strconv.ParseUint(digits, 16, 64)
	return math.Float64frombits(bits), err
}

func realWord(number float64) string { return fmt.Sprintf("%016x", math.Float64bits(number)) }

// readObject reads the next node with everything inside it, and gives the nodes behind that.
func (p *peer) readObject(nodes []string) (value any, left []string, err error) {
	letter, word, left := nodes[0][:1], nodes[0][1:], nodes[1:]
	items := func(each int) ([]any, error) {
		count, err := strconv.Atoi(word)
		values := make([]any, each*count)
		for i := 0; i < len(values) && err == nil; i++ {
			values[i], left, err = p.readObject(left)
		}
		return values, err
	}
	switch letter {
	case "N":
	case "T", "F":
		value = letter == "T"
	case "i":
		value, err = strconv.ParseInt(word, 10, 64)
	case "f":
		value, err = realOf(word)
	case "c":
		one, other, _ := strings.Cut(word, ",")
		re, wrong := realOf(one)
		im, wrongToo := realOf(other)
		value, err = complex(re, im), errors.Join(wrong, wrongToo)
	case "s", "b":
		var data []byte
		data, err = unhexed(word)
		if value = data; letter == "s" {
			value = string(data)
		}
	case "x":
		value = p.kept[word].tensor
	case "k":
		value = p.kept[word].composite
	case "t":
		var values []any
		values, err = items(1)
		value = tenon.Tuple(values)
	case "l":
		value, err = items(1)
	case "S":
		var values []any
		values, err = items(1)
		value = tenon.Set(values)
	case "d":
		var values []any
		values, err = items(2)
		dict := make(tenon.Dict, len(values)/2)
		for i := range dict {
			dict[i] = tenon.Entry{Key: values[2*i], Value: values[2*i+1]}
		}
		value = dict
	default:
		err = fmt.Errorf("no node begins with %s", letter)
	}
	return value, left, err
}

func (p *peer) sendObject(words []string) (string, error) {
	value, _, err := p.readObject(strings.Split(words[1], ";"))
	if err != nil {
		return "", err
	}
	ctx, cancel := soon()
	defer cancel()
	return "", p.sockets[words[0]].tenon.SendObject(ctx, value)
}

// said collects the nodes of an object, and holds the object's tensors and composites.
type said struct {
	peer  *peer
	keys  []string
	nodes []string
}

// key takes the next key. It fails if more tensors and composites came than there are keys.
func (s *said) key() (string, error) {
	if len(s.keys) == 0 {
		return "", errors.New("more tensors and composites came")
	}
	key := s.keys[0]
	s.keys = s.keys[1:]
	return key, nil
}

// tensor holds a tensor, and gives its node's words.
func (s *said) tensor(tensor *tenon.Tensor) (string, error) {
	key, err := s.key()
	if err != nil {
		tensor.Close()
		return "", err
	}
	s.peer.kept[key] = &kept{tensor: tensor}
	storage, spec, _, err := parts(tensor)
	if err != nil {
		return "", err
	}
	defer storage.Close()
	elements, err := content(tensor)
	return fmt.Sprintf(
		"x%s/%d/%s/%s/%s/%d/%s",
		key,
		storage.ID(),
		dtypeWord(spec.DType),
		wordOf(spec.Sizes),
		wordOf(spec.Strides),
		spec.Offset,
		elements,
	), err
}

func (s *said) composite(composite *tenon.Composite) (string, error) {
	key, err := s.key()
	if err != nil {
		composite.Close()
		return "", err
	}
	return "k" + key, s.peer.keepComposite(key, composite)
}

// add collects the nodes of a value and of everything inside it.
func (s *said) add(value any) error {
	var node string
	var inside []any
	var err error
	switch value := value.(type) {
	case nil:
		node = "N"
	case bool:
		node = map[bool]string{true: "T", false: "F"}[value]
	case int64:
		node = fmt.Sprintf("i%d", value)
	case float64:
		node = "f" + realWord(value)
	case complex128:
		node = "c" + realWord(real(value)) + "," + realWord(imag(value))
	case string:
		node = "s" + hexOf([]byte(value))
	case []byte:
		node = "b" + hexOf(value)
	case *tenon.Tensor:
		node, err = s.tensor(value)
	case *tenon.Composite:
		node, err = s.composite(value)
	case tenon.Tuple:
		node, inside = fmt.Sprintf("t%d", len(value)), value
	case []any:
		node, inside = fmt.Sprintf("l%d", len(value)), value
	case tenon.Set:
		node, inside = fmt.Sprintf("S%d", len(value)), value
	case tenon.Dict:
		node = fmt.Sprintf("d%d", len(value))
		for _, entry := range value {
			inside = append(inside, entry.Key, entry.Value)
		}
	default:
		err = fmt.Errorf("a %T is in the object", value)
	}
	s.nodes = append(s.nodes, node)
	for _, each := range inside {
		err = errors.Join(err, s.add(each))
	}
	return err
}

func (p *peer) recvObject(words []string) (string, error) {
	ctx, cancel := soon()
	defer cancel()
	value, err := p.sockets[words[0]].tenon.RecvObject(ctx)
	if err != nil {
		return "", err
	}
	all := said{peer: p, keys: words[1:]}
	if err := all.add(value); err != nil {
		return "", err
	}
	if len(all.keys) > 0 {
		return "", errors.New("fewer tensors and composites came")
	}
	return strings.Join(all.nodes, ";"), nil
}
