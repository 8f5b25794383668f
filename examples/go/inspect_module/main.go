// Prints the contents of a TorchScript file. usage: inspect_module FILE
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"libtenon/tenon"
)

// describe gives a tensor's element type and sizes.
func describe(value *tenon.Value) (string, error) {
	spec, err := value.TensorSpec()
	if err != nil {
		return "", err
	}
	if spec.Storage != nil {
		defer spec.Storage.Close()
	}
	sizes := make([]string, len(spec.Sizes))
	for i, size := range spec.Sizes {
		sizes[i] = fmt.Sprint(size)
	}
	return fmt.Sprintf(" %v [%s]", spec.ScalarType, strings.Join(sizes, ", ")), nil
}

func printMembers(module *tenon.Module, depth int) error {
	members, err := module.Members()
	if err != nil {
		return err
	}
	defer members.Close()
	for _, member := range members {
		fmt.Printf("%s%v %s", strings.Repeat("  ", depth), member.Kind, member.Name)
		if member.Type != "" {
			fmt.Printf(": %s", member.Type)
		}
		if member.Kind == tenon.MemberConstant {
			fmt.Printf(" = %s", member.Source)
		}
		if member.Value.Kind() == tenon.ValueTensor {
			tensor, err := describe(member.Value)
			if err != nil {
				return err
			}
			fmt.Print(tensor)
		}
		fmt.Println()
		if member.Module != nil {
			if err := printMembers(member.Module, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func run(file string) error {
	module, err := tenon.ImportModule(file, nil)
	if err != nil {
		return err
	}
	defer module.Close()
	report, err := module.ImportReport()
	if err != nil {
		return err
	}
	className, err := module.ClassName()
	if err != nil {
		return err
	}
	fmt.Printf("%s, version %d, %d records\n", className, report.Version, report.Records)
	if err := printMembers(module, 1); err != nil {
		return err
	}
	files, err := module.ExtraFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Printf("extra file %s, %d bytes\n", file.Name, len(file.Data))
	}
	warnings, err := module.Warnings()
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Println("warning:", warning)
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: inspect_module FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
