#!/usr/bin/env bash
# First inputs of the fuzz targets: small files of each kind, and those of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
corpus=fuzz/corpus
seed() { mkdir -p "$corpus/$1" && cat >"$corpus/$1/$2"; }
seed coco one <<<'{"images":[{"id":5,"file_name":"a.png","width":20,"height":12}],"annotations":[{"id":1,"image_id":5,"category_id":3,"segmentation":[[1,1,9,1,5,9]],"iscrowd":0},{"id":2,"image_id":5,"category_id":3,"segmentation":{"size":[12,20],"counts":[13,4,8,4,211]},"iscrowd":1}],"categories":[{"id":3,"name":"cow"}]}'
seed yolo one <<<'0 0.1 0.1 0.5 0.1 0.3 0.9'
seed labelme one <<<'{"shapes":[{"label":"cow","points":[[1,1],[9,1],[5,9]],"shape_type":"polygon"}],"imagePath":"a.png","imageData":null,"imageHeight":12,"imageWidth":20}'
seed cvat one <<<'background:0,0,0::
cow:128,0,0::'
seed voc one <<<'a'
seed spec one <<<'name = "farm"
format = "folder"
images = "images"
masks = "masks"
classes = ["background", "cow"]
novel = ["cow"]'
seed spec two <<<'name = "farm"
format = "list"
classes = ["background", "cow"]
[splits]
train = "train.txt"'
seed list one <<<'[{"class":"duck","image":"a.png","mask":"a.png","id":2}]'
seed list two <<<'a.png a.png'
printf '\x13\x0b=484_6' | seed rle one
mkdir -p "$corpus/mat" "$corpus/picture" "$corpus/mask"
cp crates/protoseg-data/tests/data/*.mat "$corpus/mat/"
cp docs/own-photos.jpg "$corpus/picture/"
find crates -path '*/tests/data/*' \( -name '*.png' -o -name '*.jpg' \) -size -64k -exec cp {} "$corpus/picture/" \;
find "$corpus/picture" -name '*.png' -exec cp {} "$corpus/mask/" \;
mkdir -p "$corpus/pickle"
cp crates/protoseg/tests/data/*.pth "$corpus/pickle/"
