// Kills a borrower and uses its memory again. usage: reclaim BORROWER...
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"first/start"
	"libtenon/tenon"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	borrower, connection := start.Program(os.Args[1:])
	arena := start.Must(tenon.NewArena(&tenon.ArenaOptions{Capacity: 4 << 20})) // one tensor's room
	options := &tenon.StorageOptions{Arena: arena}
	weights := start.Must(tenon.Empty(tenon.Float32, []int64{1 << 20}, options))
	message := start.Must(tenon.NewMessage())
	start.Check(message.Add("weights", weights))
	start.Check(connection.Send(ctx, message))
	start.Must(connection.Recv(ctx)) // the borrower is done, and still holds the tensor
	message.Close()
	weights.Close()
	var full *tenon.Error
	if _, err := tenon.NewStorage(4<<20, options); !errors.As(err, &full) {
		log.Fatal("there is room: ", err)
	}
	fmt.Println("lender: no room.", full.Details["holders"])

	start.Check(borrower.Process.Kill())
	options.Wait = ctx // wait until there is room
	start.Must(tenon.NewStorage(4<<20, options))
	fmt.Println("lender: the borrower was killed, and its memory is free")
	_ = borrower.Wait() // an error says that the borrower was killed
}
