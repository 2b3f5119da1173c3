// Command container runs one redis-server in a container, for package servers. It stands between a
// test, which has no knowledge of Docker, and Docker.
//
//	container                      sees to it that Docker answers and has the image, and ends
//	container DIRECTORY ARG...     runs redis-server ARG... in a container, in the same directory
//
// The image is what the environment variable REDIS_IMAGE names, redis:7 where it names none. Only
// redis-server in the image is used.
//
// The server shares the host's network and process ids, and writes into the host's directory as the
// user who runs the test. So ports, addresses, INFO's process_id and files are those of a local
// process. That needs a Docker engine on this machine, under Linux.
//
// The first line of the standard output is the server's process id. Then each line of the standard
// input, pause or resume, is answered by a line: ok, or what went wrong, quoted. The server's
// output goes to the standard error.
//
// The end of the standard input ends the server as kill -9 would. It also comes if the test is
// killed, so no container outlives its test, and the reaper image of testcontainers is not needed.
// This program ends once the container is gone.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	defaultImage = "redis:7"
	hostNetwork  = "host"
)

func main() {
	log.SetDefault(log.NewNoopLogger())
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return err
	}
	image := cmp.Or(os.Getenv("REDIS_IMAGE"), defaultImage)
	if len(args) == 0 {
		_, err := connect(context.Background(), image)
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	commands := make(chan string)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
	}()

	docker, err := connect(ctx, image)
	if err != nil {
		return err
	}
	return serve(ctx, docker, image, args[0], args[1:], commands)
}

// connect reaches Docker and sees to it that it has the image.
func connect(ctx context.Context, image string) (*testcontainers.DockerProvider, error) {
	// Else a network of testcontainers' own is made, and the container attached to it besides the
	// host's.
	docker, err := testcontainers.NewDockerProvider(testcontainers.WithDefaultBridgeNetwork(hostNetwork))
	if err == nil {
		err = docker.Health(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("docker does not answer: start it (systemctl start docker, or dockerd as root), or name one on this machine "+
			"in DOCKER_HOST; make test runs the same tests without Docker: %w", err)
	}
	if _, err := docker.Client().ImageInspect(ctx, image); err == nil {
		return docker, nil
	}
	if err := docker.PullImage(ctx, image); err != nil {
		return nil, fmt.Errorf("docker has no image %s and cannot pull it: name another one in REDIS_IMAGE, or make one of the installed "+
			"redis-server (make redis-image, then REDIS_IMAGE=rratelimiter-redis:local): %w", image, err)
	}
	return docker, nil
}

// serve runs the server until it ends by itself or ctx does.
func serve(ctx context.Context, docker *testcontainers.DockerProvider, image, dir string, args []string,
	commands <-chan string) (err error) {
	// The container is made, looked at and removed whatever happens to ctx: a call given up
	// half-way could leave it behind.
	whole := context.WithoutCancel(ctx)
	api := docker.Client()
	c, err := docker.CreateContainer(whole, testcontainers.ContainerRequest{
		Image:      image,
		Entrypoint: []string{"redis-server"},
		Cmd:        args,
		ConfigModifier: func(c *container.Config) {
			c.User = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
			c.WorkingDir = dir
		},
		HostConfigModifier: func(h *container.HostConfig) {
			h.NetworkMode = hostNetwork
			h.PidMode = "host"
			h.Binds = []string{dir + ":" + dir}
		},
	})
	if err != nil {
		return err
	}
	id := c.GetContainerID()
	defer func() {
		_, removeErr := api.ContainerRemove(whole, id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
		err = errors.Join(err, removeErr)
	}()
	if err := c.Start(whole); err != nil {
		return err
	}

	output, err := api.ContainerLogs(whole, id,
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		return err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := stdcopy.StdCopy(os.Stderr, os.Stderr, output)
		copied <- err
	}()
	state, err := c.State(whole)
	if err != nil {
		return err
	}
	ended := api.ContainerWait(whole, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	fmt.Println(state.Pid)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended.Error:
			return err
		case <-ended.Result:
			return <-copied
		case command := <-commands:
			if err := obey(whole, api, id, command); err != nil {
				fmt.Println(strconv.Quote(err.Error()))
			} else {
				fmt.Println("ok")
			}
		}
	}
}

func obey(ctx context.Context, api client.APIClient, id, command string) error {
	var err error
	switch command {
	case "pause":
		_, err = api.ContainerPause(ctx, id, client.ContainerPauseOptions{})
	case "resume":
		_, err = api.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
	default:
		err = fmt.Errorf("%q is neither pause nor resume", command)
	}
	return err
}
