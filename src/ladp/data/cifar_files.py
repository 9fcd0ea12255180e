"""What the publisher of CIFAR put out: class names in label order, files and digests."""

CIFAR10_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())

CIFAR100_CLASSES = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
    man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
    pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
    tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()
)

CIFAR10_BINARY_TRAIN = {
    "cifar-10-batches-bin/data_batch_1.bin": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "cifar-10-batches-bin/data_batch_2.bin": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "cifar-10-batches-bin/data_batch_3.bin": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "cifar-10-batches-bin/data_batch_4.bin": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "cifar-10-batches-bin/data_batch_5.bin": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
}
CIFAR10_BINARY_TEST = {
    "cifar-10-batches-bin/test_batch.bin": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
CIFAR10_PYTHON_TRAIN = {
    "cifar-10-batches-py/data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
}
CIFAR10_PYTHON_TEST = {
    "cifar-10-batches-py/test_batch": "md5:40351d587109b95175f43aff81a1287e",
}
CIFAR100_BINARY_TRAIN = {
    "cifar-100-binary/train.bin": "sha256:f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
}
CIFAR100_BINARY_TEST = {
    "cifar-100-binary/test.bin": "sha256:d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
}
CIFAR100_PYTHON_TRAIN = {
    "cifar-100-python/train": "md5:16019d7e3df5f24257cddd939b257f8d",
}
CIFAR100_PYTHON_TEST = {
    "cifar-100-python/test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
}

ARCHIVES = {
    "cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530",
    "cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a",
    "cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8",
    "cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85",
}
