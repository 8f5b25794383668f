package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"libtenon/tenon"
)

// partNames are the parts of a spec in the order of C's struct.
var partNames = []string{
	"values", "indices", "plain_indices", "offsets", "lengths", "component_sizes",
	"component_strides", "scales", "zero_points",
}

func partOf(spec *tenon.CompositeSpec, name string) **tenon.Tensor {
	return map[string]**tenon.Tensor{
		"values": &spec.Values, "indices": &spec.Indices, "plain_indices": &spec.PlainIndices,
		"offsets": &spec.Offsets, "lengths": &spec.Lengths, "component_sizes": &spec.ComponentSizes,
		"component_strides": &spec.ComponentStrides, "scales": &spec.Scales,
		"zero_points": &spec.ZeroPoints,
	}[name]
}

func dtypeOf(word string) (tenon.DType, error) {
	var code, bits uint8
	var lanes uint16
	_, err := fmt.Sscanf(word, "%d:%d:%d", &code, &bits, &lanes)
	return tenon.NewDType(code, bits, lanes), err
}

func dtypeWord(dtype tenon.DType) string {
	return fmt.Sprintf("%d:%d:%d", dtype.Code(), dtype.Bits(), dtype.Lanes())
}

// readPart makes the tensor of DTYPE/SIZES/CONTENT in a storage of its own.
func readPart(word string) (*tenon.Tensor, error) {
	pieces := strings.Split(word, "/")
	if len(pieces) != 3 {
		return nil, fmt.Errorf("%s is no part", word)
	}
	dtype, err := dtypeOf(pieces[0])
	if err != nil {
		return nil, err
	}
	sizes, err := numbers(pieces[1])
	if err != nil {
		return nil, err
	}
	data, err := hex.DecodeString(strings.TrimPrefix(pieces[2], "-"))
	if err != nil {
		return nil, err
	}
	storage, err := tenon.NewStorageFrom(data, nil)
	if err != nil {
		return nil, err
	}
	defer storage.Close()
	return tenon.NewTensor(storage, tenon.Spec{DType: dtype, Sizes: sizes})
}

// readComposite makes the composite that the words of COMPOSITE describe.
func readComposite(words []string) (*tenon.Composite, error) {
	var spec tenon.CompositeSpec
	defer func() { spec.Close() }()
	var err error
	if spec.Sizes, err = numbers(words[1]); err != nil {
		return nil, err
	}
	if spec.Strides, err = numbers(words[2]); err != nil {
		return nil, err
	}
	if spec.DType, err = dtypeOf(words[4]); err != nil {
		return nil, err
	}
	if spec.Scale, err = strconv.ParseFloat(words[6], 64); err != nil {
		return nil, err
	}
	_, err = fmt.Sscan(
		strings.Join(
			[]string{
				words[0],
				words[3],
				words[5],
				words[7],
				words[8],
				words[9],
				words[10],
				words[11],
			},
			" ",
		),
		&spec.Layout,
		&spec.Offset,
		&spec.Flags,
		&spec.ZeroPoint,
		&spec.Axis,
		&spec.RaggedDim,
		&spec.Quantizer,
		&spec.Coalesced,
	)
	if err != nil {
		return nil, err
	}
	for _, word := range words[12:] {
		name, rest, _ := strings.Cut(word, "=")
		part := partOf(&spec, name)
		if part == nil {
			return nil, fmt.Errorf("no part is called %s", name)
		}
		if *part, err = readPart(rest); err != nil {
			return nil, err
		}
	}
	return tenon.NewComposite(spec)
}

// keepComposite holds a composite and, for read and write, its values.
func (p *peer) keepComposite(key string, composite *tenon.Composite) error {
	spec, err := composite.Spec()
	if err != nil {
		composite.Close()
		return err
	}
	held := &kept{composite: composite, tensor: spec.Values}
	spec.Values = nil
	spec.Close()
	p.kept[key] = held
	return nil
}

func (p *peer) compose(words []string) (string, error) {
	composite, err := readComposite(words[1:])
	if err != nil {
		return "", err
	}
	return "", p.keepComposite(words[0], composite)
}

func (p *peer) send(words []string) (string, error) {
	message, err := tenon.NewMessage()
	if err != nil {
		return "", err
	}
	defer message.Close()
	for _, key := range words[1:] {
		if err := message.AddComposite("c"+key, p.kept[key].composite); err != nil {
			return "", err
		}
	}
	ctx, cancel := soon()
	defer cancel()
	return "", p.sockets[words[0]].tenon.Send(ctx, message)
}

func (p *peer) receive(words []string) (string, error) {
	ctx, cancel := soon()
	defer cancel()
	message, err := p.sockets[words[0]].tenon.Recv(ctx)
	if err != nil {
		return "", err
	}
	defer message.Close()
	keys, names := words[1:], []string{}
	if message.CompositeCount() != len(keys) {
		return "", fmt.Errorf("%d composites came", message.CompositeCount())
	}
	for i, key := range keys {
		composite, err := message.Composite(i)
		if err != nil {
			return "", err
		}
		if err := p.keepComposite(key, composite); err != nil {
			return "", err
		}
		name, _ := message.CompositeName(i)
		names = append(names, name)
	}
	return strings.Join(names, " "), nil
}

// check replaces the received composite by the one with checked numbers.
func (p *peer) check(words []string) (string, error) {
	held := p.kept[words[0]]
	checked, err := held.composite.Check()
	if err != nil {
		return "", err
	}
	held.composite.Close()
	held.composite = checked
	return "", nil
}

// composite gives the words of a composite.
func (p *peer) composite(words []string) (string, error) {
	spec, err := p.kept[words[0]].composite.Spec()
	if err != nil {
		return "", err
	}
	defer spec.Close()
	scale := strconv.FormatFloat(spec.Scale, 'g', -1, 64)
	said := []string{
		fmt.Sprintf(
			"%d %s %s %d %s %d %s %d %d %d %d %d",
			int32(spec.Layout),
			wordOf(spec.Sizes),
			wordOf(spec.Strides),
			spec.Offset,
			dtypeWord(spec.DType),
			uint32(spec.Flags),
			scale,
			spec.ZeroPoint,
			spec.Axis,
			spec.RaggedDim,
			int32(spec.Quantizer),
			int32(spec.Coalesced),
		),
	}
	for _, name := range partNames {
		part := *partOf(&spec, name)
		if part == nil {
			continue
		}
		elements, err := content(part)
		if err != nil {
			return "", err
		}
		shape, err := part.Spec()
		if err != nil {
			return "", err
		}
		said = append(
			said,
			fmt.Sprintf("%s=%s/%s/%s", name, dtypeWord(shape.DType), wordOf(shape.Sizes), elements),
		)
	}
	return strings.Join(said, " "), nil
}
