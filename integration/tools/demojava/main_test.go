package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/internal/golden"
)

const exampleDir = "../../../examples/java-and-go/"

// TestPlay_JavaAndGo_ShareTheLimit runs make demo-java, and rrl as the README of the example does.
func TestPlay_JavaAndGo_ShareTheLimit(t *testing.T) {
	url := "redis://" + servers.Single(t).Addr()
	var out bytes.Buffer
	require.NoError(t, play(t.Context(), url, &out), "%s", &out)
	before, after, found := strings.Cut(out.String(), "Java sets the rate")
	require.True(t, found)
	for _, taken := range []string{"Java  granted", "Go    granted"} {
		assert.Contains(t, before, taken)
		assert.Contains(t, after, taken)
	}
	_, end, found := strings.Cut(after, "Go releases 2 permits")
	require.True(t, found)
	assert.Equal(t, 2, strings.Count(end, "Java  granted"))

	rrl := exec.CommandContext(t.Context(), "go", "run", "../../cmd/rrl", "--redis", url, "show", "paid-api")
	rrl.Dir = exampleDir
	shown, err := rrl.CombinedOutput()
	require.NoError(t, err, "%s", shown)
	assert.Contains(t, string(shown), "rate        8 in 2s")
	assert.Contains(t, string(shown), "wrong       nothing")
}

// TestReadme_Commands_AreThoseOfTheDemo, with the address of a local Redis.
func TestReadme_Commands_AreThoseOfTheDemo(t *testing.T) {
	readme := golden.Text(t, exampleDir+"README.md")
	const url = "redis://localhost:6379"
	for _, command := range []string{
		javaCommand + url,
		goCommand + url,
		"go run ../../cmd/rrl --redis " + url + " show paid-api",
	} {
		assert.Contains(t, readme, "\n"+command+"\n")
	}
	pom := golden.Text(t, exampleDir+"pom.xml")
	assert.Contains(t, pom, "<version>4.7.0</version>")
}
