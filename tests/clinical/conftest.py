"""Chromium for tests of pages, and what assistive technology would stumble over."""

import shutil
from pathlib import Path

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no browser: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (
        *FLAGS,
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    running = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(driver)
    )
    yield running
    running.quit()


def set_scheme(browser, scheme):
    """Show pages in a light or a dark scheme from now on."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": features}
    )


def serious_faults(browser):
    """What axe calls serious or critical on the page that is shown: impact, rule and place."""
    axe = pytest.importorskip("axe_core_python")
    script = Path(axe.__file__).with_name("axe.min.js").read_text("utf-8")
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    browser.execute_script(script)
    found = browser.execute_async_script(
        "axe.run().then(arguments[arguments.length - 1])"
    )
    assert len(found["passes"]) > 10  # it did run
    return [
        (each["impact"], each["id"], each["nodes"][0]["html"][:100])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
