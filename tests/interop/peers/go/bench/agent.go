package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"

	acp "github.com/coder/acp-go-sdk"
)

// agent answers `stream COUNT` in a prompt with so many chunks of text.
type agent struct {
	client *acp.AgentSideConnection
	texts  []string
	opened atomic.Int64
}

func serve() {
	var given struct{ ChunkTexts []string }
	check(json.Unmarshal([]byte(os.Getenv("BENCH_TEXTS")), &given))
	a := &agent{texts: given.ChunkTexts}
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

func (a *agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{ProtocolVersion: 1}, nil
}

func (a *agent) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: acp.SessionId(fmt.Sprintf("session-%d", a.opened.Add(1)))}, nil
}

func (a *agent) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, nil
}

func (a *agent) Prompt(ctx context.Context, params acp.PromptRequest) (acp.PromptResponse, error) {
	var count int
	if _, err := fmt.Sscanf(params.Prompt[0].Text.Text, "stream %d", &count); err != nil {
		return acp.PromptResponse{}, err
	}
	for number := 0; number < count; number++ {
		update := acp.UpdateAgentMessageText(a.texts[number%len(a.texts)])
		if err := a.client.SessionUpdate(ctx, acp.SessionNotification{SessionId: params.SessionId, Update: update}); err != nil {
			return acp.PromptResponse{}, err
		}
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

func (a *agent) Cancel(context.Context, acp.CancelNotification) error { return nil }

func (a *agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, nil
}

func (a *agent) CloseSession(context.Context, acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	return acp.CloseSessionResponse{}, nil
}

func (a *agent) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, nil
}

func (a *agent) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, nil
}

func (a *agent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, nil
}
