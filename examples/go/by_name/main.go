// Two processes share nothing but a name. One process makes memory under the name. The other one is
// started with the name as its argument, opens it and writes. usage: by_name [NAME]
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"

	"libtenon/tenon"
)

const count = 1000

func borrow(ctx context.Context, name string) error {
	// Every process that may write to a named file can cut it short. A process that opens the file
	// trusts them.
	storage, err := tenon.OpenFilename(
		ctx,
		tenon.FilenameHandle{Name: name, NBytes: count * 4},
		&tenon.OpenOptions{AllowUnsealed: true},
	)
	if err != nil {
		return err
	}
	defer storage.Close()
	tensor, err := tenon.NewTensor(storage, tenon.Spec{DType: tenon.Int32, Sizes: []int64{count}})
	if err != nil {
		return err
	}
	defer tensor.Close()
	return tenon.With(tensor, func(values []int32) error {
		for i := range values {
			values[i] = int32(i * i)
		}
		return nil
	})
}

func lend(ctx context.Context) error {
	storage, err := tenon.NewStorageFilename(count*4, nil)
	if err != nil {
		return err
	}
	defer storage.Close()
	handle, err := storage.ShareFilename(ctx, nil)
	if err != nil {
		return err
	}
	borrower := exec.Command("/proc/self/exe", handle.Name)
	borrower.Stderr = os.Stderr
	if err := borrower.Run(); err != nil {
		return err
	}
	err = storage.WithBytes(func(data []byte) error {
		fmt.Println("the other process wrote", binary.NativeEndian.Uint32(data[(count-1)*4:]))
		return nil
	})
	if err != nil {
		return err
	}
	storage.Close() // the last holder closes the storage, and the name goes
	_, err = tenon.OpenFilename(ctx, handle, nil)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Println("the name is gone")
	} else {
		fmt.Println("the name is still there")
	}
	return nil
}

func main() {
	ctx := context.Background()
	var err error
	if len(os.Args) == 2 {
		err = borrow(ctx, os.Args[1])
	} else {
		err = lend(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
