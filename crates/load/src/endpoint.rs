//! Where requests go.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Which of the OpenAI-compatible interfaces is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `/v1/completions`: takes token ids, so prompts have exact lengths.
    Completions,
    /// `/v1/chat/completions`: a list of messages.
    Chat,
}

impl Api {
    /// Its path below the base.
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

/// A key that is sent and never shown, stored or compared.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// The key in an environment variable, which no file of a run will hold from now on, whoever repeats it. Keys that no header
    /// can hold are refused.
    pub fn from_env(variable: &str) -> Result<Self, String> {
        let key = std::env::var(variable)
            .map_err(|_| format!("the environment variable {variable} is not set"))?;
        let key = key.trim().to_owned();
        if key.is_empty() || !key.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(format!(
                "the environment variable {variable} holds no API key"
            ));
        }
        llmprof_record::secrets::remember_value(&key);
        Ok(Self(key))
    }

    pub(crate) fn header_value(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// A server's text without the key: some repeat it when they refuse it.
    fn hidden_in(&self, text: &str) -> String {
        llmprof_record::secrets::without_known(&text.replace(&self.0, "…")).into_owned()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Whether the URL begins with `https`.
    pub is_tls: bool,
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: u16,
    /// Path before `/v1`, without a slash at its end.
    pub base: String,
    pub api: Api,
    /// What is sent as `Authorization`.
    pub key: Option<ApiKey>,
    /// Certificates to trust beside the system's, PEM.
    pub ca: Option<PathBuf>,
}

impl Endpoint {
    /// What a server said, without the key that it was sent.
    pub(crate) fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.hidden_in(&text),
            None => text,
        }
    }

    /// Reads `http://host:8000`, with or without `http://`, `/v1` or the whole path of an interface, which then is the one used.
    pub fn parse(url: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("`{url}` is not an endpoint: {what}");
        let (is_tls, rest) = if let Some(rest) = url.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = url.strip_prefix("https://") {
            (true, rest)
        } else if url.contains("://") {
            return Err(wrong("its scheme must be http or https"));
        } else {
            (false, url)
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(wrong(
                "it holds a password; give an API key in an environment variable",
            ));
        }
        if path.contains(['?', '#']) {
            return Err(wrong("it has a query"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest
                    .split_once(']')
                    .ok_or_else(|| wrong("an IPv6 address lacks its `]`"))?;
                (host, after.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("it has no host"));
        }
        let port = match port {
            None => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .parse::<u16>()
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?,
        };
        let path = path.trim_end_matches('/');
        let (base, api) = if let Some(base) = path.strip_suffix(Api::Chat.path()) {
            (base, Api::Chat)
        } else if let Some(base) = path.strip_suffix(Api::Completions.path()) {
            (base, Api::Completions)
        } else {
            (path.strip_suffix("/v1").unwrap_or(path), Api::Completions)
        };
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            base: base.to_owned(),
            api,
            key: None,
            ca: None,
        })
    }

    /// Value of the `Host` header.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        format!("{host}:{}", self.port)
    }

    /// The path of its interface.
    pub fn path(&self) -> String {
        format!("{}{}", self.base, self.api.path())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_all_forms() {
        let endpoint = Endpoint::parse("http://localhost:8000").unwrap();
        assert_eq!(endpoint.path(), "/v1/completions");
        assert_eq!((endpoint.port, endpoint.is_tls), (8000, false));
        let endpoint = Endpoint::parse("localhost:8000/v1").unwrap();
        assert_eq!(endpoint.to_string(), "http://localhost:8000");
        let endpoint = Endpoint::parse("https://api.example.com/v1/").unwrap();
        assert_eq!((endpoint.port, endpoint.is_tls), (443, true));
        assert_eq!(endpoint.to_string(), "https://api.example.com:443");
        let endpoint = Endpoint::parse("http://[::1]:80/proxy/v1/chat/completions").unwrap();
        assert_eq!(
            (endpoint.api, endpoint.base.as_str()),
            (Api::Chat, "/proxy")
        );
        assert_eq!(endpoint.authority(), "[::1]:80");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for url in [
            "",
            ":8000",
            "http://",
            "http://a:0",
            "http://a:x",
            "http://u:p@h",
            "http://[::1",
            "http://h/v1?key=1",
            "ftp://h",
        ] {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = ApiKey("secret".to_owned());
        assert!(!format!("{key:?}").contains("secret"));
    }
}
