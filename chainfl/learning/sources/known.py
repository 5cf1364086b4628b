"""Digests of the decoded arrays of known data sets, so that a damaged or different copy is noticed."""

from collections.abc import Mapping
from typing import Final

DIGESTS: Final[Mapping[str, Mapping[str, str]]] = {
    "covtype": {
        "x": "63c5f612d951b50751b84bfaf32fe7744faff5d0dfa8e05aec9ec68837e4434f",
        "y": "cd2fa2f6694819d4d5406b89e4a6c388815a8bd074c8a1dba4aa0a6f13c2c718",
        "x_test": "21a5fa7f08eb4697deb03518795e7a658a99e2372a9c693d4f70aa07432c5028",
        "y_test": "6364382714c5e5b67430e81f6c5f12ca24798043aca1ea805677a4fe12188d44",
        "group_soil": "5ba8d7f8a49ec22785aae6a9789703fc1b5b1ba4ea4d39b32e12cf239d942aa0",
        "group_area": "99cecdb4f84d0d961f4bbe01169e4bbe0a4cc1963ca5fd798065b20112975fd5",
    },
    "fashion-mnist": {
        "x": "8edfa509d1d69da3100e59e91486405660ff3874a959ab8cfb7ce0adc56b5b08",
        "y": "c734fe3b9a9789467f5bebc08e8f2dce56fcdfcb4200e59bc156bf1e3ceba5a4",
        "x_test": "22e55b8778349ad63bdecbaaa37f4f622183190c7285a98ee3b90ec6eccb9f50",
        "y_test": "923a9f5ef308199df24e7913e468e28031689de0ea81f8f612e2afee125dfb30",
    },
    "imdb": {
        "x": "d57a129dcac7b900978e1b17569e3195136b8e96047f38ca966da47320e07123",
        "y": "e439c6e7212923bc234a74253e840d1c890249dff23e56ecc8f269a0a7aa047a",
        "x_test": "3d514e26e07bda69e0f49c29f4b98ab4c09ff2f5a9b688f8ed1bbfd8ef8357ec",
        "y_test": "e439c6e7212923bc234a74253e840d1c890249dff23e56ecc8f269a0a7aa047a",
        "group_movie": "395577f556fb3b767ded930adae51399a05db711c642fce0262be285cd340b36",
    },
    "mnist": {
        "x": "2d43653f0252a5ae9cd4cad4d20df68399ce33f0729a33cb667d2e7fea7642f3",
        "y": "11bdade1cecbb6ae9506bf0b1dfb7c5c27490a3b26f52fb488bac4b055aed9ca",
        "x_test": "1999ba4b2002e547c6aceda96f1b292fb5a49aa3830fd35372e531d9f2f5b4f2",
        "y_test": "d478b7a537041ef2ed633a5ca768381c62b254322c7b95ef4c455c9e106857bf",
        "group_writer": "5c79f92cdc5486585832df4e76e308fc8579424b8fcee7a1cc63d2431f14a451",
    },
    "mnist-embedded": {
        "x": "2e47d482b525c77d4077547717d9c2cc94bcf5d8881b2acccfba02fe1d0f383e",
        "y": "13bf2cb3366fbb429106e46eb5a4b0b3f09385b244fcbbaa73a70fccaf29c4f4",
        "x_test": "4b010d8b6fb2cb4baac13a37ea8b4fb7673f7defc4bef283b1667b992600a446",
        "y_test": "5ebcb441ba581cd70c4fdb0f9afd2b9125f95dfc31bf1fe7390eebab6e8887bd",
        "group_writer": "69065c19cd5054f29351a5fe7cf573c70ef66bac18dccea378352c8469592f10",
    },
    "shakespeare": {
        "x": "114d1ab0a5f9ccbe3d1112d4913e16955039b3d1cda1f6016adbd9751ec824df",
        "y": "4a521be6bfafcd3ad6854cb53c400e572a95709698391c96f819ef8357e1efc0",
        "x_test": "f33989c56bb4e090742e1db5bcbe1a0fd5628dfd907c40992a1f001f073ce099",
        "y_test": "63e5521bfcfdf6ca8a3860de1a2aff75a260457625b32cf211d3bc93286e359e",
        "group_role": "ceb19a4363603543e7d639bee1f5f23b7e2a93b6c67f521f40b5559ca4131f02",
        "group_play": "e0d0de6ed5b573103f8cfce1bca0862e7560de20fb84e83ac9b23faf2d6de286",
    },
    "shakespeare-six": {
        "x": "51d95f56dcb22dc3cdc95cf10324881e79b354edfeeb4269e3f3e0f49073315a",
        "y": "c1f2c753f948b90fe62d24791dfef3aad900217eb6613d729f59dbde31a46db9",
        "x_test": "339e2ec9f3a56cd077234e9a41ab8795a81932c94faae7cb1f4c0abaa5caec65",
        "y_test": "cdada6a0f8a0c5fecb32f4ce9092d2e943f558db66aa0506df0cd4e0c479289c",
        "group_role": "ecac556f2a92aaf2f10d02dd0761d4c82e71ed6b26540d567b2d4631dbec83e9",
        "group_play": "94e2a8abc2fbef383fa95862b4470649c1f70c1a6d15d7ba6fca6ae15d2bdd76",
        "test_role": "13e1458a6ad9d71d959f3e92c575e4644452b27951ef7c3915d47ad085c71529",
        "test_play": "b41964241c484c2ff6b445ffdad8bbf6389885388bc566b97f9a8f17a93dc325",
    },
}
