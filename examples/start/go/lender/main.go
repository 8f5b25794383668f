// Lends a tensor to another program. usage: lender shared|frozen BORROWER...
package main

import (
	"context"
	"fmt"
	"os"

	"first/start"
	"libtenon/tenon"
)

func main() {
	ctx := context.Background()
	borrower, connection := start.Program(os.Args[2:])

	options := &tenon.StorageOptions{Mode: tenon.Shared}
	if os.Args[1] == "frozen" {
		options.Mode = tenon.Frozen
	}
	values := make([]float32, 1000)
	values[0] = 1
	weights := start.Must(tenon.FromSlice(values, []int64{1000}, options))
	message := start.Must(tenon.NewMessage())
	start.Check(message.Add("weights", weights))
	start.Check(connection.Send(ctx, message))
	start.Must(connection.Recv(ctx)) // the borrower is done
	fmt.Println("lender: the first weight is", start.Must(tenon.NewView[float32](weights)).At(0))
	connection.Close()
	start.Check(borrower.Wait())
}
