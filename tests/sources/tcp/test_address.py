"""Where a publisher is, and how TLS is spoken to it."""

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from consumer.core.errors import InvalidOption, InvalidURL
from consumer.sources.tcp.address import Address
from consumer.sources.tcp.tls import TLS, is_refusal


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://127.0.0.1:7000", Address("127.0.0.1", 7000, uses_tls=False)),
        ("tls://events.example:443", Address("events.example", 443, uses_tls=True)),
        ("tcp://[::1]:1", Address("::1", 1, uses_tls=False)),
        ("tls://[fe80::1%eth0]:65535", Address("fe80::1%eth0", 65535, uses_tls=True)),
        ("tcp://my_host-1:0080", Address("my_host-1", 80, uses_tls=False)),
    ],
)
def test_an_address_is_a_scheme_a_host_and_a_port(text, address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:1",
        "http://host:1",
        "TCP://host:1",
        "tcp://host",
        "tcp://:1",
        "tcp://host:0",
        "tcp://host:65536",
        "tcp://host:123456",
        "tcp://host:-1",
        "tcp://host:+1",
        "tcp://host:1/",
        "tcp://host:1?x=1",
        "tcp://host:1#x",
        "tcp://host:1\n",
        " tcp://host:1",
        "tcp://user@host:1",
        "tcp://::1:1",
        "tcp://[::1]",
        "tcp://[]:1",
        "tcp://[::1:1",
        "tcp://ho st:1",
        "tcp://host:\u0661",
        "tcp://.host:1",
        f"tcp://{'a' * 64}.example:1",
    ],
)
def test_anything_else_is_refused_with_what_to_give(text) -> None:
    with pytest.raises(InvalidURL, match="tcp://HOST:PORT or tls://HOST:PORT"):
        Address.parse(text)


def test_what_somebody_has_put_before_the_host_is_not_repeated() -> None:
    with pytest.raises(InvalidURL) as raised:
        Address.parse("tcp://me:secret@host:1")
    assert "secret" not in str(raised.value)


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    issued = authority.issue_cert("client.example")
    names = {name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key", "both", "garbage", "other_key")}
    authority.cert_pem.write_to_path(names["ca"])
    issued.cert_chain_pems[0].write_to_path(names["cert"])
    issued.private_key_pem.write_to_path(names["key"])
    issued.private_key_and_cert_chain_pem.write_to_path(names["both"])
    authority.issue_cert("other.example").private_key_pem.write_to_path(names["other_key"])
    (folder / "garbage.pem").write_text("not a certificate")
    return names


def check_verifies(context: ssl.SSLContext) -> None:
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_certificates_and_names_are_always_verified(files) -> None:
    check_verifies(TLS().context())
    check_verifies(TLS(ca=files["ca"], name="other.example").context())
    check_verifies(TLS(ca=files["ca"], cert=files["both"]).context())


def test_an_authority_of_ones_own_stands_instead_of_the_systems(files) -> None:
    context = TLS(ca=files["ca"]).context()
    assert len(context.get_ca_certs()) == 1
    assert TLS(ca=files["ca"], cert=files["cert"], key=files["key"]).context().cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ca": "missing.pem"}, r"missing\.pem cannot be used"),
        ({"ca": "garbage"}, r"garbage\.pem cannot be used"),
        ({"cert": "missing.pem"}, r"missing\.pem cannot be used"),
        ({"cert": "cert"}, r"cert\.pem cannot be used"),
        ({"cert": "cert", "key": "other_key"}, r"cert\.pem cannot be used"),
        ({"cert": "garbage", "key": "key"}, r"garbage\.pem cannot be used"),
        ({"key": "key"}, "a TLS key needs its certificate"),
        ({"name": "a..b"}, "no host name"),
        ({"name": ".example"}, "no host name"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(files, options, message) -> None:
    with pytest.raises(InvalidOption, match=message):
        TLS(**{name: files.get(value, value) for name, value in options.items()}).context()


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(files, tmp_path) -> None:
    key = serialization.load_pem_private_key(Path(files["key"]).read_bytes(), None)
    path = tmp_path / "locked.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(InvalidOption, match="the key is encrypted"):
        TLS(cert=files["cert"], key=str(path)).context()


def test_a_refusal_is_about_a_certificate() -> None:
    assert is_refusal(ssl.SSLCertVerificationError())
    for reason, expected in [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("TLSV1_ALERT_UNKNOWN_CA", True),
        ("SSLV3_ALERT_BAD_CERTIFICATE", True),
        ("TLSV1_ALERT_ACCESS_DENIED", True),
        ("TLSV1_ALERT_INTERNAL_ERROR", False),
        ("WRONG_VERSION_NUMBER", False),
        (None, False),
    ]:
        error = ssl.SSLError()
        error.reason = reason  # type: ignore[assignment]
        assert is_refusal(error) is expected
    assert not is_refusal(OSError("CERTIFICATE"))
