package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"

	acp "github.com/coder/acp-go-sdk"
)

// play is one line that the client reads: an agent to start, and steps to do.
type play struct {
	Command      []string `json:"command"`
	Cwd          string   `json:"cwd"`
	Steps        []list   `json:"steps"`
	Capabilities object   `json:"capabilities"`
	Answers      object   `json:"answers"`
}

// player does the steps and keeps what it saw.
type player struct {
	play
	agent *acp.ClientSideConnection
	id    string

	lock     sync.Mutex
	asked    list
	updates  list
	cancelAt string
	isStuck  bool
}

// playAll prints what was seen of each play that is read, a line each.
func playAll() {
	lines := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		p := &player{asked: list{}}
		if err := json.Unmarshal(line, &p.play); err != nil {
			panic(err)
		}
		if err := answers.Encode(p.perform()); err != nil {
			panic(err)
		}
	}
}

func (p *player) perform() object {
	child := exec.Command(p.Command[0], p.Command[1:]...)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		panic(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := child.Start(); err != nil {
		panic(err)
	}
	p.agent = acp.NewClientSideConnection(p, in, out)
	p.agent.SetLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	seen := list{}
	for _, step := range p.Steps {
		seen = append(seen, p.step(step[0].(string), step[1:]))
	}
	in.Close()
	child.Wait()
	p.lock.Lock()
	defer p.lock.Unlock()
	return object{"steps": seen, "asked": p.asked}
}

func (p *player) step(verb string, args list) object {
	p.lock.Lock()
	p.updates = list{}
	p.lock.Unlock()
	result, err := p.do(verb, args)
	p.lock.Lock()
	defer p.lock.Unlock()
	step := object{"updates": p.updates}
	var refused *acp.RequestError
	switch {
	case errors.As(err, &refused):
		step["error"] = refused
	case err != nil:
		step["error"] = object{"message": err.Error()}
	default:
		step["result"] = result
	}
	return step
}

// call makes one request of the SDK from params that were built by hand.
func call[Q, R any](method func(context.Context, Q) (R, error), params object) (any, error) {
	request, err := as[Q](params)
	if err != nil {
		return nil, err
	}
	return method(context.Background(), request)
}

func (p *player) do(verb string, args list) (any, error) {
	here := object{"sessionId": p.id}
	again := object{"sessionId": p.id, "cwd": p.Cwd, "mcpServers": list{}}
	switch verb {
	case "answer":
		p.lock.Lock()
		defer p.lock.Unlock()
		for name, answer := range args[0].(object) {
			p.Answers[name] = answer
		}
		return object{}, nil
	case "initialize":
		return call(p.agent.Initialize, object{"protocolVersion": 1, "clientCapabilities": p.Capabilities})
	case "authenticate":
		return call(p.agent.Authenticate, object{"methodId": args[0]})
	case "new":
		opened, err := call(p.agent.NewSession, object{"cwd": p.Cwd, "mcpServers": list{}})
		if err == nil {
			p.id = string(opened.(acp.NewSessionResponse).SessionId)
		}
		return opened, err
	case "prompt":
		return p.prompt(args)
	case "load":
		return call(p.agent.LoadSession, again)
	case "resume":
		return call(p.agent.ResumeSession, again)
	case "list":
		return call(p.agent.ListSessions, object{"cwd": p.Cwd})
	case "close":
		return call(p.agent.CloseSession, here)
	case "set_mode":
		return call(p.agent.SetSessionMode, object{"sessionId": p.id, "modeId": args[0]})
	case "set_config":
		params := object{"sessionId": p.id, "configId": args[0], "value": args[1]}
		if _, isFlag := args[1].(bool); isFlag {
			params["type"] = "boolean"
		}
		return call(p.agent.SetSessionConfigOption, params)
	case "extension":
		return p.agent.CallExtension(context.Background(), "_"+args[0].(string), args[1])
	}
	return nil, errors.New("the Go client has no verb " + verb)
}

func (p *player) prompt(args list) (any, error) {
	params := object{"sessionId": p.id, "prompt": list{object{"type": "text", "text": args[0]}}}
	options := object{}
	if len(args) > 1 {
		options = args[1].(object)
	}
	p.lock.Lock()
	p.cancelAt, _ = options["cancelAt"].(string)
	p.isStuck, _ = options["isStuck"].(bool)
	p.lock.Unlock()
	if id, isOther := options["sessionId"]; isOther {
		params["sessionId"] = id
	}
	return call(p.agent.Prompt, params)
}

// heard keeps what the agent asked.
func (p *player) heard(method string, params any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.asked = append(p.asked, object{"method": method, "params": params})
}

func (p *player) cancel() error {
	return p.agent.Cancel(context.Background(), acp.CancelNotification{SessionId: acp.SessionId(p.id)})
}

func (p *player) SessionUpdate(_ context.Context, params acp.SessionNotification) error {
	update := must[object](params.Update)
	p.lock.Lock()
	p.updates = append(p.updates, update)
	isTime := p.cancelAt != "" && update["sessionUpdate"] == p.cancelAt
	isStuck := p.isStuck
	if isTime {
		p.cancelAt = ""
	}
	p.lock.Unlock()
	if isStuck {
		<-p.agent.Done()
	}
	if isTime {
		return p.cancel()
	}
	return nil
}

func (p *player) RequestPermission(_ context.Context, params acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	p.heard("session/request_permission", params)
	if p.Answers["permission"] == "cancel" {
		err := p.cancel()
		return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, err
	}
	for _, option := range params.Options {
		if string(option.Kind) == p.Answers["permission"] {
			return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(option.OptionId)}, nil
		}
	}
	return acp.RequestPermissionResponse{}, errors.New("no option is of the kind that was asked for")
}

func (p *player) ReadTextFile(_ context.Context, params acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	p.heard("fs/read_text_file", params)
	text, _ := p.Answers["files"].(object)[params.Path].(string)
	return acp.ReadTextFileResponse{Content: text}, nil
}

func (p *player) WriteTextFile(_ context.Context, params acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	p.heard("fs/write_text_file", params)
	return acp.WriteTextFileResponse{}, nil
}

func (p *player) CreateTerminal(_ context.Context, params acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	p.heard("terminal/create", params)
	return acp.CreateTerminalResponse{TerminalId: "terminal-1"}, nil
}

func (p *player) TerminalOutput(_ context.Context, params acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	p.heard("terminal/output", params)
	return as[acp.TerminalOutputResponse](p.Answers["terminal"].(object)["output"])
}

func (p *player) WaitForTerminalExit(_ context.Context, params acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	p.heard("terminal/wait_for_exit", params)
	return as[acp.WaitForTerminalExitResponse](p.Answers["terminal"].(object)["exit"])
}

func (p *player) KillTerminal(_ context.Context, params acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	p.heard("terminal/kill", params)
	return acp.KillTerminalResponse{}, nil
}

func (p *player) ReleaseTerminal(_ context.Context, params acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	p.heard("terminal/release", params)
	return acp.ReleaseTerminalResponse{}, nil
}

func (p *player) UnstableCreateElicitation(_ context.Context, params acp.UnstableCreateElicitationRequest) (acp.UnstableCreateElicitationResponse, error) {
	p.heard("elicitation/create", params)
	return as[acp.UnstableCreateElicitationResponse](p.Answers["elicitation"])
}

func (p *player) UnstableCompleteElicitation(_ context.Context, params acp.UnstableCompleteElicitationNotification) error {
	p.heard("elicitation/complete", params)
	return nil
}

func (p *player) HandleExtensionMethod(_ context.Context, method string, params json.RawMessage) (any, error) {
	if !strings.HasSuffix(method, "/ping") {
		return nil, acp.NewMethodNotFound(method)
	}
	p.heard(method, params)
	return object{"pong": true}, nil
}
