//! The ways over the network: an agent that listens, and a client's transport to an address.

use std::collections::HashMap;

use agent_client_protocol_http::{AcpHttpServer, HttpClient};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::Response;

use crate::agent::Desk;

const COOKIE: &str = "lane=7";

/// Serve WebSocket and HTTP on one port of loopback, which is printed.
pub async fn listen(desk: Desk) -> Result<(), Box<dyn std::error::Error>> {
    let router = AcpHttpServer::new(move || desk.app()).into_router().layer(from_fn(gate));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    Ok(axum::serve(listener, router).await?)
}

/// Like a gate in front of a server that a load balancer stands before: a token for all, and for those who came before
/// the cookie that they were given.
async fn gate(request: Request, next: Next) -> Result<Response, StatusCode> {
    let is_first = !request.headers().contains_key("acp-connection-id");
    refuse(request.headers(), is_first)?;
    let mut response = next.run(request).await;
    if is_first {
        let cookie = HeaderValue::from_str(&format!("{COOKIE}; Path=/; HttpOnly")).expect("a cookie is a header");
        response.headers_mut().append("set-cookie", cookie);
    }
    Ok(response)
}

fn refuse(headers: &HeaderMap, is_first: bool) -> Result<(), StatusCode> {
    let value = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let token = std::env::var("INTEROP_TOKEN").unwrap_or_default();
    if value("authorization") != format!("Bearer {token}") {
        return Err(StatusCode::UNAUTHORIZED);
    }
    if is_first || value("cookie").contains(COOKIE) { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
}

/// A client's transport to this address.
pub fn dial(url: &str, headers: &HashMap<String, String>) -> Result<HttpClient, Box<dyn std::error::Error>> {
    let headers = reqwest::header::HeaderMap::try_from(headers)?;
    let builder = HttpClient::builder_with_endpoint(url);
    Ok(builder.configure_http(|http| http.default_headers(headers).cookie_store(true).no_proxy()).build()?)
}
