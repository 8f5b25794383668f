// A cache that does not keep its storages alive. It holds weak references, and makes a storage
// again after its last user has released it.
package main

import (
	"fmt"
	"log"

	"libtenon/tenon"
)

type cache map[int]*tenon.WeakRef

// get gives a storage, which the caller closes.
func (c cache) get(entry int) (*tenon.Storage, error) {
	if known, ok := c[entry]; ok {
		if storage, err := known.Lock(); err == nil {
			fmt.Printf("entry %d: found\n", entry)
			return storage, nil
		}
		known.Close()
	}
	fmt.Printf("entry %d: made\n", entry)
	storage, err := tenon.NewStorageFrom([]byte(fmt.Sprintf("this is entry %d", entry)), nil)
	if err != nil {
		return nil, err
	}
	c[entry], err = storage.WeakRef()
	return storage, err
}

func run() error {
	entries := cache{}
	first, err := entries.get(1)
	if err != nil {
		return err
	}
	second, err := entries.get(1)
	if err != nil {
		return err
	}
	err = first.WithBytes(func(text []byte) error {
		same := map[bool]string{true: "yes", false: "no"}[first.ID() == second.ID()]
		fmt.Printf("%s: the same storage: %s\n", text, same)
		return nil
	})
	if err != nil {
		return err
	}
	first.Close()
	second.Close()
	fmt.Printf(
		"expired after the last release: %s\n",
		map[bool]string{true: "yes", false: "no"}[entries[1].Expired()],
	)
	again, err := entries.get(1)
	if err != nil {
		return err
	}
	again.Close()
	return entries[1].Close()
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
