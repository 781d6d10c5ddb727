"""The page in a real browser: by keyboard, narrow and wide; nothing is kept or comes from afar."""

import json
import threading
import time
import urllib.request

import pytest

from tests.clinical.bedside.conftest import ADDRESS, document, hook_request
from tests.clinical.conftest import serious_faults, set_scheme

NOTES = (
    "Nursing: pt. alert 🙂, lives alone, admits he stopped his furosemide two weeks ago.",
    "Brief course: 71M with decompensated heart failure, diuresed. <b>Discharged</b> home.",
)

pytestmark = pytest.mark.encoder


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    uvicorn = pytest.importorskip("uvicorn")
    from biomed.served import ANSWERS, ENTITIES
    from clinical.bedside.served import READMISSION
    from domainbert.service.app import Service, ServiceSettings

    models = ["readmission-demo", "disease-drug", "qa"]
    asked = ServiceSettings(model=models, address=ADDRESS)
    kinds = [READMISSION, ENTITIES, ANSWERS]
    service = Service(
        asked, work=tmp_path_factory.mktemp("work"), announced_tasks=kinds
    )
    server = uvicorn.Server(
        uvicorn.Config(service.app, port=0, log_config=None)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def open_page(browser, url, width):
    size = {
        "width": width,
        "height": 900,
        "deviceScaleFactor": 1,
        "mobile": False,
    }
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get(url)


def until(browser, script, *, seconds=60):
    end = time.monotonic() + seconds
    while not (value := browser.execute_script(f"return {script}")):
        assert time.monotonic() < end, f"never: {script}"
        time.sleep(0.05)
    return value


def type_keys(browser, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(browser).send_keys(key).perform()


def read_by_keyboard(browser):
    from selenium.webdriver.common.keys import Keys

    until(browser, "Boolean(tasks.answers)")
    browser.execute_script("document.getElementById('note-1').focus()")
    browser.execute_cdp_cmd("Input.insertText", {"text": NOTES[0]})
    type_keys(
        browser, Keys.TAB, Keys.ENTER
    )  # "Add a note" takes the focus into the new one
    browser.execute_cdp_cmd("Input.insertText", {"text": NOTES[1]})
    type_keys(
        browser, Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER
    )  # "Read the notes"
    until(browser, "!document.getElementById('result').hidden")


@pytest.mark.parametrize("width", [360, 1280])
def test_notes_are_read_by_keyboard(browser, address, width, tmp_path):
    from selenium.webdriver.common.keys import Keys

    open_page(browser, address, width)
    read_by_keyboard(browser)
    assert (
        browser.execute_script("return document.activeElement.id") == "result"
    )
    percent = browser.execute_script(
        "return document.getElementById('percent').textContent"
    )
    assert 0 <= int(percent.rstrip("%")) <= 100
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.note pre')].map(pre => {"
        "const copy = pre.cloneNode(true);"
        "copy.querySelectorAll('sup').forEach(sup => sup.remove());"
        "return copy.textContent})"
    )
    assert shown == list(NOTES)  # all of it, as text, around every mark
    assert (
        browser.execute_script(
            "return document.querySelectorAll('.note b').length"
        )
        == 0
    )
    marks = browser.execute_script(
        "return [...document.querySelectorAll('mark.raises, mark.lowers')].map(m => m.textContent)"
    )
    assert marks
    entities = browser.execute_script(
        "return [...document.querySelectorAll('.note .entity')].map(m => m.firstChild.textContent)"
    )
    assert "heart failure" in " ".join(entities)
    assert "furosemide" in entities
    browser.execute_script("document.getElementById('question').focus()")
    type_keys(browser, "What did he stop?", Keys.ENTER)
    answer = until(browser, "document.getElementById('answers').textContent")
    assert "furosemide" in answer
    needed, there = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert needed <= there
    whole = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True}
    )
    assert len(whole["data"]) > 10_000


def test_nothing_is_kept_or_fetched_from_elsewhere(browser, address):
    open_page(browser, address, 1280)
    read_by_keyboard(browser)
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert all(name.startswith((address, "data:")) for name in loaded)
    kept = "return [localStorage.length, sessionStorage.length, document.cookie.length]"
    assert browser.execute_script(kept) == [0, 0, 0]
    assert [
        each
        for each in browser.get_log("browser")
        if each["level"] == "SEVERE"
    ] == []
    browser.execute_script("document.getElementById('clear').click()")
    assert browser.execute_script(
        "return document.getElementById('result').hidden"
    )
    open_page(browser, address, 1280)
    until(browser, "document.getElementById('note-1')")
    assert (
        browser.execute_script(
            "return document.getElementById('note-1').value"
        )
        == ""
    )


def test_faults_are_said(browser, address):
    open_page(browser, address, 360)
    browser.execute_script("document.getElementById('read').click()")
    assert "Paste a note" in until(
        browser, "document.getElementById('message').textContent"
    )
    browser.execute_script(
        "document.getElementById('note-1').value = 'x'.repeat(500001);"
        "document.getElementById('read').click()"
    )
    until(
        browser,
        "document.getElementById('message').textContent.includes('at most 500,000')",
    )


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (1280, "light"), (1280, "dark")]
)
def test_axe_finds_no_serious_fault(browser, address, width, scheme):
    set_scheme(browser, scheme)
    open_page(browser, address, width)
    read_by_keyboard(browser)
    assert serious_faults(browser) == []


def test_the_link_of_a_card_opens_its_evidence(browser, address):
    summary = {"coding": [{"system": "http://loinc.org", "code": "18842-5"}]}
    documents = [document(NOTES[0], 0), document(NOTES[1], 1, type=summary)]
    body = json.dumps(hook_request(*documents)).encode()
    request = urllib.request.Request(
        f"{address}/cds-services/readmission",
        body,
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        (card,) = json.load(answer)["cards"]
    open_page(browser, card["links"][0]["url"].replace(ADDRESS, address), 1280)
    percent = until(browser, "document.getElementById('percent').textContent")
    assert percent in card["summary"]
    # The shipped model reads discharge summaries, and the card says so.
    assert (
        browser.execute_script(
            "return document.querySelectorAll('.note').length"
        )
        == 1
    )
    assert "of 1 note were read" in card["detail"]
    assert "that the model does not choose, not read: 1" in card["detail"]
    assert "Discharge summary, 2026" in card["detail"]


def test_the_page_of_the_interface(browser, address):
    open_page(browser, f"{address}/docs/", 360)
    text = until(
        browser,
        "document.getElementById('routes').textContent.includes('/v1/answers')",
    )
    assert text


def test_the_example_shows_every_assertion_and_what_decided_it(
    browser, address
):
    open_page(browser, address, 1280)
    until(browser, "Boolean(tasks.answers)")
    browser.execute_script("document.getElementById('example').click()")
    browser.execute_script("document.getElementById('read').click()")
    until(browser, "!document.getElementById('result').hidden")
    shown = browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.note .entity')].map("
        "e => [e.firstChild.textContent.toLowerCase(), e.className.split(' ')[1]]))"
    )
    expected = {
        "penicillin": "allergy",
        "heart failure": "present",
        "stroke": "historical",
        "breast cancer": "other",
        "chest pain": "possible",  # the last one, in the instructions
        "pulmonary embolism": "negated",
    }
    assert {name: shown.get(name) for name in expected} == expected
    style = browser.execute_script(
        "const negated = document.querySelector('.note .entity.negated');"
        "return getComputedStyle(negated).textDecorationLine"
    )
    assert style == "line-through"
    cues = browser.execute_script(
        "return [...document.querySelectorAll('.note .cue')].map(c => [c.textContent, c.title])"
    )
    assert ["denies", "cue: negated"] in cues
    assert serious_faults(browser) == []
