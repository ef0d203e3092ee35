//! The part of Label Studio's labelling configuration that matters here: which control paints on which image, and which
//! labels it has.

/// A control for brushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// What results call it.
    pub name: String,
    /// The image that it paints on.
    pub to_name: String,
    /// The key of the task's data that holds the image.
    pub key: String,
    /// Labels that people can choose.
    pub labels: Vec<String>,
}

/// The first control for brushes in a configuration.
pub fn control(config: &str) -> Option<Control> {
    let tags: Vec<(&str, Vec<(String, String)>)> = tags(config).collect();
    let start = tags.iter().position(|(tag, _)| *tag == "BrushLabels")?;
    let get = |attributes: &[(String, String)], key: &str| {
        attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    let (name, to_name) = (get(&tags[start].1, "name")?, get(&tags[start].1, "toName")?);
    let inside = tags[start + 1..].iter().take_while(|(tag, _)| *tag != "/BrushLabels");
    let labels =
        inside.filter(|(tag, _)| *tag == "Label").filter_map(|(_, attributes)| get(attributes, "value"));
    let labels = labels.collect();
    let mut images = tags.iter().filter(|(tag, _)| *tag == "Image");
    let image = images.find(|(_, attributes)| get(attributes, "name").as_ref() == Some(&to_name))?;
    let key = get(&image.1, "value")?.trim_start_matches('$').to_string();
    Some(Control { name, to_name, key, labels })
}

/// Names and attributes of tags, in order.
fn tags(config: &str) -> impl Iterator<Item = (&str, Vec<(String, String)>)> {
    config.split('<').skip(1).filter_map(|rest| {
        let inside = rest.split('>').next()?;
        let name = inside.split([' ', '\n', '\t', '\r']).next()?.trim_end_matches('/');
        Some((
            if inside.starts_with('/') { inside.trim() } else { name },
            attributes(inside.get(name.len()..)?),
        ))
    })
}

fn attributes(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim().trim_start_matches('/').to_string();
        let Some(quote) = rest.trim_start().chars().next().filter(|c| "'\"".contains(*c)) else { break };
        let Some((value, rest)) = rest.trim_start()[1..].split_once(quote) else { break };
        found.push((name, plain(value)));
        text = rest;
    }
    found
}

/// Text in which entities are what they stand for.
fn plain(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    pairs.iter().fold(text.to_string(), |text, (entity, plain)| text.replace(entity, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_of_a_configuration_is_found() {
        let config = r#"<View>
          <Image name="image" value="$picture" zoom="true"/>
          <RectangleLabels name="box" toName="image"><Label value="no"/></RectangleLabels>
          <BrushLabels name="tag" toName='image'>
            <Label value="duck" background="red"/><Label value="black &amp; white"></Label>
          </BrushLabels>
        </View>"#;
        let found = control(config).unwrap();
        assert_eq!(
            (found.name.as_str(), found.to_name.as_str(), found.key.as_str()),
            ("tag", "image", "picture")
        );
        assert_eq!(found.labels, ["duck", "black & white"]);
        for wrong in [
            "",
            "<View/>",
            "<BrushLabels",
            "<BrushLabels name='a'>",
            "<BrushLabels name=a toName=b>",
            "<<>><=",
        ] {
            assert_eq!(control(wrong), None, "{wrong}");
        }
    }
}
