package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

const inFlight = 64
const longest = 60 * time.Second

// client plays one scenario with the agent it starts, and prints what that cost as `benchmarks/script.py` does.
type client struct {
	agent *acp.ClientSideConnection
	seen  atomic.Int64
}

func play(arguments []string) {
	started := time.Now()
	scenario, command := arguments[0], arguments[3:]
	count, err := strconv.Atoi(arguments[1])
	check(err)
	child := exec.Command(command[0], command[1:]...)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	check(err)
	out, err := child.StdoutPipe()
	check(err)
	check(child.Start())
	c := &client{}
	c.agent = acp.NewClientSideConnection(c, in, out)
	_, err = c.agent.Initialize(context.Background(), acp.InitializeRequest{ProtocolVersion: 1})
	check(err)
	opened, err := c.agent.NewSession(context.Background(), acp.NewSessionRequest{Cwd: "/tmp", McpServers: []acp.McpServer{}})
	check(err)
	firstSession := time.Since(started).Seconds()
	pid := strconv.Itoa(child.Process.Pid)
	clientCpu, agentCpu := cpuSeconds("self"), cpuSeconds(pid)
	began := time.Now()
	check(c.perform(scenario, opened.SessionId, count))
	seconds := time.Since(began).Seconds()
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"first_session": firstSession,
		"seconds":       seconds,
		"client_cpu":    cpuSeconds("self") - clientCpu,
		"agent_cpu":     cpuSeconds(pid) - agentCpu,
		"client_peak":   peakBytes("self"),
		"agent_peak":    peakBytes(pid),
	}))
	check(in.Close())
	_ = child.Wait()
}

func (c *client) perform(scenario string, id acp.SessionId, count int) error {
	switch scenario {
	case "spawn":
		return nil
	case "stream":
		text := []acp.ContentBlock{acp.TextBlock(fmt.Sprintf("stream %d", count))}
		if _, err := c.agent.Prompt(context.Background(), acp.PromptRequest{SessionId: id, Prompt: text}); err != nil {
			return err
		}
		for began := time.Now(); c.seen.Load() < int64(count) && time.Since(began) < longest; {
			time.Sleep(time.Millisecond)
		}
		if seen := c.seen.Load(); seen != int64(count) {
			return fmt.Errorf("%d updates instead of %d", seen, count)
		}
		return nil
	case "sequential":
		return c.ask(id, count)
	case "in_flight":
		var group sync.WaitGroup
		failures := make(chan error, inFlight)
		for number := 0; number < inFlight; number++ {
			group.Add(1)
			go func(share int) {
				defer group.Done()
				failures <- c.ask(id, share)
			}((count + number) / inFlight)
		}
		group.Wait()
		close(failures)
		for err := range failures {
			if err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("no scenario is called " + scenario)
}

func (c *client) ask(id acp.SessionId, count int) error {
	for number := 0; number < count; number++ {
		if _, err := c.agent.SetSessionMode(context.Background(), acp.SetSessionModeRequest{SessionId: id, ModeId: "ask"}); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) SessionUpdate(_ context.Context, params acp.SessionNotification) error {
	if chunk := params.Update.AgentMessageChunk; chunk != nil && chunk.Content.Text != nil {
		c.seen.Add(1)
	}
	return nil
}

var errNotAsked = errors.New("the agent of this benchmark asks nothing")

func (c *client) RequestPermission(context.Context, acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	return acp.RequestPermissionResponse{}, errNotAsked
}

func (c *client) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, errNotAsked
}

func (c *client) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, errNotAsked
}

func (c *client) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, errNotAsked
}

func (c *client) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, errNotAsked
}

func (c *client) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, errNotAsked
}

func (c *client) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, errNotAsked
}

func (c *client) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, errNotAsked
}

// cpuSeconds is the CPU time of all threads.
func cpuSeconds(pid string) float64 {
	threads, err := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
	check(err)
	used := 0.0
	for _, thread := range threads {
		line, err := os.ReadFile(thread)
		if err != nil {
			continue // it has just ended
		}
		nanoseconds, err := strconv.ParseFloat(strings.Fields(string(line))[0], 64)
		check(err)
		used += nanoseconds / 1e9
	}
	return used
}

func peakBytes(pid string) int {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	check(err)
	for _, line := range strings.Split(string(status), "\n") {
		if value, isPeak := strings.CutPrefix(line, "VmHWM:"); isPeak {
			kibibytes, err := strconv.Atoi(strings.Fields(value)[0])
			check(err)
			return kibibytes * 1024
		}
	}
	return 0
}
