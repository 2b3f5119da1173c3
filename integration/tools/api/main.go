// Command api writes the exported API of each public package to the folder api. A file has one
// declaration per line, so that a reviewer sees a change of the API as a difference.
// Run it in the root of the repository:
//
//	go run ./integration/tools/api
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	if err := write(context.Background(), ".", "api"); err != nil {
		log.Fatal(err)
	}
}

// write writes one file per public package of the modules in root.
func write(ctx context.Context, root, folder string) error {
	files, err := describe(ctx, root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
