package main

import "testing"

func TestRun(t *testing.T) {
	if run(t.Context()) == nil {
		t.Error("run works without a Redis")
	}
}
