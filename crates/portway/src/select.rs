//! Which objects a command is about: by namespace, by name.

use clap::Args;
use observe::picture::Picture;
use standalone::objects::{Kind, Object};
use standalone::suggest::nearest;

use super::said::Failure;
use super::values::{Sentence, name};

/// `-n` and `-A`.
#[derive(Args, Clone, Debug)]
pub(super) struct NamespaceScope {
    /// The namespace to look in
    #[arg(short, long, value_name = "NAMESPACE", value_parser = Sentence(name), default_value = "default")]
    namespace: String,

    /// Look in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

impl NamespaceScope {
    /// Should a table tell the namespace of each row?
    pub(super) fn shows_namespaces(&self) -> bool {
        self.all_namespaces
    }

    /// Is this namespace looked at? Objects without namespace always are.
    pub(super) fn contains(&self, namespace: &str) -> bool {
        self.all_namespaces || namespace.is_empty() || namespace == self.namespace
    }

    /// What to say when nothing is there.
    pub(super) fn nothing(&self, is_namespaced: bool) -> String {
        if self.all_namespaces || !is_namespaced {
            "No resources found.\n".to_owned()
        } else {
            format!("No resources found in {} namespace.\n", self.namespace)
        }
    }

    /// The objects of a kind, all or those of these names, by namespace and name.
    pub(super) fn select<'a>(
        &self,
        picture: &'a Picture,
        kind: Kind,
        names: &[String],
    ) -> Result<Vec<&'a Object>, Failure> {
        if kind == Kind::Pod && picture.is_trimmed() {
            return Err(Failure::about(
                picture,
                "Pods are not watched in a cluster: `portway get endpoints` and `portway get endpointslices` show where Services \
                 lead, and `kubectl get pods` the Pods",
            ));
        }
        let objects = picture.objects().values();
        let found: Vec<&Object> = objects
            .filter(|object| object.key.kind == kind && self.contains(&object.key.namespace))
            .filter(|object| names.is_empty() || names.iter().any(|name| **name == *object.key.name))
            .collect();
        match names.iter().find(|name| !found.iter().any(|object| *object.key.name == ***name)) {
            Some(missing) => Err(Failure::about(picture, self.not_found(picture, kind, missing))),
            None => Ok(found),
        }
    }

    /// `` no Service `wbe` in namespace `default`: did you mean `web`? ``
    fn not_found(&self, picture: &Picture, kind: Kind, name: &str) -> String {
        let of_kind = || picture.objects().keys().filter(move |key| key.kind == kind);
        let elsewhere = of_kind().find(|key| *key.name == *name && !self.contains(&key.namespace));
        let here = of_kind().filter(|key| self.contains(&key.namespace)).map(|key| &*key.name);
        let place = if self.all_namespaces || !kind.is_namespaced() {
            String::new()
        } else {
            format!(" in namespace `{}`", self.namespace)
        };
        let way_out = match (elsewhere, nearest(name, here)) {
            (Some(key), _) => {
                format!("it is in namespace `{}`, so add `-n {}`", key.namespace, key.namespace)
            }
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("`portway get {} -A` lists all", plural(kind)),
        };
        format!("no {} `{name}`{place}: {way_out}", kind.name())
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Service | Kind::ServiceCidr => "services",
        Kind::EndpointSlice => "endpointslices",
        Kind::Pod => "pods",
        Kind::Node => "nodes",
    }
}

#[cfg(test)]
mod tests {
    use model::Config;

    use super::*;

    #[test]
    fn who_asks_for_pods_in_a_cluster_learns_that_none_are_watched() {
        let picture = Picture::of(Picture::of_server(Config::default()).snapshot());
        let scope = NamespaceScope { namespace: "default".into(), all_namespaces: false };
        for names in [vec![], vec!["web-1".to_owned()]] {
            let failure = scope.select(&picture, Kind::Pod, &names).expect_err("there is nothing to see");
            let Failure::Refused { message, .. } = failure else { panic!("the question is not malformed") };
            assert!(
                message.starts_with("Pods are not watched in a cluster: `portway get endpoints`"),
                "{message}"
            );
        }
        assert!(scope.select(&picture, Kind::Service, &[]).is_ok_and(|found| found.is_empty()));
    }
}
