//! Maps by channel.

/// For each of the `channels` of `maps`, its plane in every image.
pub fn by_channel_mut(maps: &mut [f32], channels: usize, plane: usize) -> Vec<Vec<&mut [f32]>> {
    let mut parts: Vec<Vec<&mut [f32]>> = (0..channels).map(|_| Vec::new()).collect();
    for image in maps.chunks_mut((channels * plane).max(1)) {
        for (part, plane) in parts.iter_mut().zip(image.chunks_mut(plane)) {
            part.push(plane);
        }
    }
    parts
}
