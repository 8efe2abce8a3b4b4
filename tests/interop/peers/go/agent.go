package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	acp "github.com/coder/acp-go-sdk"
)

// session is what the agent keeps of one.
type session struct {
	id, cwd, mode, depth string
	loud                 bool
	said                 list
}

func (s *session) modes() object {
	choices := list{object{"id": "ask", "name": "ask"}, object{"id": "code", "name": "code"}}
	return object{"currentModeId": s.mode, "availableModes": choices}
}

func (s *session) configOptions() list {
	choices := list{object{"value": "brief", "name": "brief"}, object{"value": "long", "name": "long"}}
	depth := object{"id": "depth", "name": "Depth", "type": "select", "category": "thought_level", "currentValue": s.depth, "options": choices}
	return list{depth, object{"id": "loud", "name": "Loud", "type": "boolean", "currentValue": s.loud}}
}

func (s *session) state() object {
	return object{"sessionId": s.id, "modes": s.modes(), "configOptions": s.configOptions()}
}

// agent shows a part of the protocol by the first word of a prompt.
type agent struct {
	client     *acp.AgentSideConnection
	isLoggedIn bool
	lock       sync.Mutex
	sessions   []*session
}

func serve() {
	a := &agent{isLoggedIn: !slices.Contains(os.Args, "--login")}
	ready := make(chan struct{})
	a.client = acp.NewAgentSideConnection(a, os.Stdout, lateReader{ready})
	close(ready)
	<-a.client.Done()
}

// lateReader reads nothing before the agent knows its connection, which reads from the moment it is made.
type lateReader struct{ ready chan struct{} }

func (r lateReader) Read(into []byte) (int, error) {
	<-r.ready
	return os.Stdin.Read(into)
}

func (a *agent) find(id acp.SessionId) (*session, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, each := range a.sessions {
		if each.id == string(id) {
			return each, nil
		}
	}
	return nil, &acp.RequestError{Code: -32002, Message: "Resource not found", Data: object{"sessionId": id}}
}

func (a *agent) notify(s *session, update any) error {
	params := must[acp.SessionNotification](object{"sessionId": s.id, "update": update})
	return a.client.SessionUpdate(context.Background(), params)
}

func (a *agent) tell(s *session, update object) error {
	s.said = append(s.said, update)
	return a.notify(s, update)
}

func (a *agent) say(s *session, text string) error {
	return a.tell(s, object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

func (a *agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return must[acp.InitializeResponse](object{
		"protocolVersion": 1,
		"agentInfo":       object{"name": "interop", "version": "1"},
		"agentCapabilities": object{
			"loadSession":         true,
			"promptCapabilities":  object{"image": true, "embeddedContext": true},
			"sessionCapabilities": object{"list": object{}, "resume": object{}, "close": object{}},
		},
		"authMethods": list{object{"id": "token", "name": "Token"}},
	}), nil
}

func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	a.isLoggedIn = true
	return acp.AuthenticateResponse{}, nil
}

func (a *agent) NewSession(_ context.Context, params acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	if !a.isLoggedIn {
		return acp.NewSessionResponse{}, acp.NewAuthRequired(nil)
	}
	a.lock.Lock()
	s := &session{id: fmt.Sprintf("session-%d", len(a.sessions)+1), cwd: params.Cwd, mode: "ask", depth: "brief"}
	a.sessions = append(a.sessions, s)
	a.lock.Unlock()
	// Before the answer that introduces the session, as many agents do.
	commands := list{object{"name": "init", "description": "Begin"}}
	err := a.notify(s, object{"sessionUpdate": "available_commands_update", "availableCommands": commands})
	return must[acp.NewSessionResponse](s.state()), err
}

func (a *agent) LoadSession(_ context.Context, params acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	s, err := a.find(params.SessionId)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	for _, update := range s.said {
		if err := a.notify(s, update); err != nil {
			return acp.LoadSessionResponse{}, err
		}
	}
	return must[acp.LoadSessionResponse](s.state()), nil
}

func (a *agent) ResumeSession(_ context.Context, params acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	s, err := a.find(params.SessionId)
	if err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	return must[acp.ResumeSessionResponse](s.state()), nil
}

func (a *agent) ListSessions(_ context.Context, params acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	at := 0
	if params.Cursor != nil {
		at, _ = strconv.Atoi(*params.Cursor)
	}
	answer := object{"sessions": list{}}
	if at < len(a.sessions) {
		s := a.sessions[at]
		answer["sessions"] = list{object{"sessionId": s.id, "cwd": s.cwd, "title": "Title of " + s.id}}
	}
	if at+1 < len(a.sessions) {
		answer["nextCursor"] = strconv.Itoa(at + 1)
	}
	return must[acp.ListSessionsResponse](answer), nil
}

func (a *agent) CloseSession(_ context.Context, params acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	_, err := a.find(params.SessionId)
	return acp.CloseSessionResponse{}, err
}

func (a *agent) SetSessionMode(_ context.Context, params acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	s, err := a.find(params.SessionId)
	if err == nil {
		s.mode = string(params.ModeId)
	}
	return acp.SetSessionModeResponse{}, err
}

func (a *agent) SetSessionConfigOption(_ context.Context, params acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	given := must[struct {
		SessionId acp.SessionId
		Value     any
	}](params)
	s, err := a.find(given.SessionId)
	if err != nil {
		return acp.SetSessionConfigOptionResponse{}, err
	}
	switch value := given.Value.(type) {
	case bool:
		s.loud = value
	case string:
		s.depth = value
	}
	return must[acp.SetSessionConfigOptionResponse](object{"configOptions": s.configOptions()}), nil
}

// Cancel has nothing to do: the SDK ends the context of the prompt.
func (a *agent) Cancel(context.Context, acp.CancelNotification) error { return nil }

func (a *agent) HandleExtensionMethod(_ context.Context, method string, params json.RawMessage) (any, error) {
	if method != "_interop/echo" {
		return nil, acp.NewMethodNotFound(method)
	}
	return params, nil
}

func (a *agent) Prompt(ctx context.Context, params acp.PromptRequest) (acp.PromptResponse, error) {
	s, err := a.find(params.SessionId)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	s.said = append(s.said, object{"sessionUpdate": "user_message_chunk", "content": params.Prompt[0]})
	word, rest, _ := strings.Cut(params.Prompt[0].Text.Text, " ")
	stopReason, err := a.show(ctx, s, word, rest)
	return acp.PromptResponse{StopReason: stopReason}, err
}

// show plays the part of the protocol that the word names.
func (a *agent) show(ctx context.Context, s *session, word, rest string) (acp.StopReason, error) {
	switch word {
	case "stream":
		count, _ := strconv.Atoi(rest)
		for number := range make([]struct{}, count) {
			if err := a.say(s, fmt.Sprintf("%d ", number)); err != nil {
				return "", err
			}
		}
		return acp.StopReasonEndTurn, nil
	case "big":
		size, _ := strconv.Atoi(rest)
		return acp.StopReasonEndTurn, a.say(s, strings.Repeat("x", size))
	case "echo":
		return acp.StopReasonEndTurn, a.say(s, rest)
	case "wait":
		if err := a.say(s, "waiting"); err != nil {
			return "", err
		}
		<-ctx.Done()
		return acp.StopReasonCancelled, a.say(s, " stopped")
	case "refuse":
		return acp.StopReasonRefusal, nil
	case "error":
		return "", &acp.RequestError{Code: -32050, Message: "as requested", Data: object{"asked": true}}
	case "updates":
		return acp.StopReasonEndTurn, a.updates(s)
	case "tools":
		return acp.StopReasonEndTurn, a.tools(s)
	}
	said, err := a.ask(ctx, s, word, rest)
	if err != nil {
		return "", err
	}
	return acp.StopReasonEndTurn, a.say(s, said)
}

func (a *agent) tellAll(s *session, updates ...object) error {
	for _, update := range updates {
		if err := a.tell(s, update); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) updates(s *session) error {
	plan := list{object{"content": "Look", "priority": "high", "status": "completed"}}
	s.depth = "long"
	return a.tellAll(
		s,
		object{"sessionUpdate": "agent_thought_chunk", "content": object{"type": "text", "text": "Hm."}},
		object{"sessionUpdate": "plan", "entries": plan},
		object{"sessionUpdate": "usage_update", "used": 10, "size": 100},
		object{"sessionUpdate": "session_info_update", "title": "Interop"},
		object{"sessionUpdate": "current_mode_update", "currentModeId": "code"},
		object{"sessionUpdate": "config_option_update", "configOptions": s.configOptions()},
		object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "image", "data": "aGk=", "mimeType": "image/png"}},
	)
}

func (a *agent) tools(s *session) error {
	path := s.cwd + "/a.txt"
	places := list{object{"path": path, "line": 3}}
	diff := object{"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"}
	return a.tellAll(
		s,
		object{"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Edit", "kind": "edit", "status": "pending", "locations": places},
		object{"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "in_progress"},
		object{"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed", "content": list{diff}, "rawOutput": object{"ok": true}},
	)
}
