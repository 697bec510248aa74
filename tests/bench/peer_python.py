#!/usr/bin/env python3
"""Uploads or downloads a folder with a Python library: what a user of that library would write.

usage: peer_python.py boto3|crt|connector upload|download FOLDER BUCKET PREFIX CONNECTIONS PART_BYTES
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

CHUNK = 1 << 20
CRT_BYTES_PER_S = 10e9 / 8  # the default of its users: 10 Gbit/s


def files_of(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            yield path, os.path.relpath(path, folder)


class Boto3:
    """boto3's transfer manager; its threads are shared by all files."""

    def __init__(self, connections, part_bytes):
        import boto3
        from botocore.config import Config
        from boto3.s3.transfer import TransferConfig
        from s3transfer.manager import TransferManager
        self.client = boto3.client("s3", config=Config(max_pool_connections=connections,
                                                       s3={"addressing_style": "path"}))
        config = TransferConfig(multipart_chunksize=part_bytes, multipart_threshold=part_bytes,
                                max_concurrency=connections)
        self.manager = TransferManager(self.client, config)

    def upload(self, folder, bucket, prefix):
        with self.manager as manager:
            for future in [manager.upload(path, bucket, f"{prefix}/{name}") for path, name in files_of(folder)]:
                future.result()

    def download(self, folder, bucket, prefix):
        names = self.names(bucket, prefix)
        with self.manager as manager:
            for future in [manager.download(bucket, f"{prefix}/{name}", target(folder, name)) for name in names]:
                future.result()

    def names(self, bucket, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
        return [entry["Key"][len(prefix) + 1:] for page in pages for entry in page.get("Contents", [])]


class Crt(Boto3):
    """The AWS CRT client below the same transfers. It has no count of connections, but a throughput that it makes
    enough for."""

    def __init__(self, connections, part_bytes):
        super().__init__(connections, part_bytes)
        from botocore.session import Session
        from s3transfer.crt import (BotocoreCRTCredentialsWrapper, BotocoreCRTRequestSerializer, CRTTransferManager,
                                    create_s3_crt_client)
        session, region = Session(), os.environ["AWS_REGION"]
        keys = BotocoreCRTCredentialsWrapper(session.get_credentials()).to_crt_credentials_provider()
        client = create_s3_crt_client(region, use_ssl=False, part_size=part_bytes, target_throughput=CRT_BYTES_PER_S,
                                      crt_credentials_provider=keys)
        self.manager = CRTTransferManager(client, BotocoreCRTRequestSerializer(
            session, {"region_name": region, "endpoint_url": os.environ["AWS_ENDPOINT_URL"]}))


class Connector:
    """The client of s3torchconnector, which is Mountpoint's: one stream for each file, its parts in parallel below."""

    def __init__(self, connections, part_bytes):
        from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client
        self.client = MountpointS3Client(os.environ["AWS_REGION"], part_size=part_bytes, force_path_style=True,
                                         endpoint=os.environ["AWS_ENDPOINT_URL"])
        self.connections = connections

    def upload(self, folder, bucket, prefix):
        def one(path, name):
            stream = self.client.put_object(bucket, f"{prefix}/{name}")
            with open(path, "rb") as file:
                while chunk := file.read(CHUNK):
                    stream.write(chunk)
            stream.close()
        self.each(one, files_of(folder))

    def download(self, folder, bucket, prefix):
        def one(name):
            with open(target(folder, name), "wb") as file:
                for chunk in self.client.get_object(bucket, f"{prefix}/{name}"):
                    file.write(chunk)
        listed = self.client.list_objects(bucket, prefix + "/")
        self.each(one, [(entry.key[len(prefix) + 1:],) for page in listed for entry in page.object_info])

    def each(self, one, arguments):
        with ThreadPoolExecutor(self.connections) as pool:
            for future in [pool.submit(one, *of_one) for of_one in arguments]:
                future.result()


def target(folder, name):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def main():
    library, what, folder, bucket, prefix, connections, part_bytes = sys.argv[1:]
    transfer = {"boto3": Boto3, "crt": Crt, "connector": Connector}[library](int(connections), int(part_bytes))
    getattr(transfer, what)(folder, bucket, prefix)


if __name__ == "__main__":
    main()
