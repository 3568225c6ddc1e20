//! The page about images.

use super::*;
use crate::docs::Reader;

#[tokio::test]
async fn the_page_about_images_works() {
    let town = Town::open("docs", &[]).await;
    let server = &place().await.site.server;
    for name in ["a", "b", "c"] {
        town.add_node(name, json!({"pool": "shop"})).await;
        town.node_image(name).await;
    }
    let mut page = Reader::open(server, &town.name, "images.md").await;
    let printed = page.read("Pull an image onto nodes").await;
    assert!(printed.contains("job has completed: 3 of 3"), "{printed}");
    let printed = page.read("Why does it not end?").await;
    assert!(printed.contains("ImagePullJob shop: complete, 3 of 3 nodes have the image"), "{printed}");
    let printed = page.read("Pull several images").await;
    assert_eq!(printed.lines().filter(|line| line.starts_with("shop-")).count(), 2, "{printed}");
    let printed = page.read("Pull only where it makes sense").await;
    assert!(printed.contains("waits for label:gpu-driver=570"), "{printed}");
    page.read("Pull with credentials").await;
    page.read("Keep the image there").await;
    page.end();
}
