"""The dashboard in a real browser: what people see, with what they use. Screenshots go to artifacts/browser."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from chainfl.protocol.events import Convicted
from chainfl.types import Id, Phase
from tests.api.scene import LIE_AT, Scene, history, lose_update, play_open, play_plain, scene
from tests.browser.server import serving

SHOTS = Path(__file__).resolve().parents[2] / "artifacts" / "browser"
FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1280, 900), (390, 844)

pytestmark = pytest.mark.timeout(120)


@dataclass(slots=True)
class Visit:
    """A page on the dashboard, and everything the browser complained about."""

    page: Page
    url: str
    task: str
    complaints: list[str] = field(default_factory=list)

    def see(self, place: str) -> Page:
        """Go somewhere and wait until it is drawn."""
        self.page.goto(f"{self.url}{place}")
        self.page.wait_for_selector(f'main[data-ready="{place}"]')
        return self.page

    def round(self, number: int) -> Page:
        """Go to a round and wait for its audit."""
        page = self.see(f"#/task/{self.task}/round/{number}")
        page.wait_for_selector(".checks")
        return page


@pytest.fixture(scope="module")
def browser(require: Callable[[str], Path]) -> Iterator[Browser]:
    program = require("chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture(scope="module")
def made() -> Scene:
    found = history()
    lose_update(found.net, 2)
    return found


@pytest.fixture(scope="module")
def url(made: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(made, tmp_path_factory.mktemp("browser")) as found:
        yield found


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser, made: Scene, url: str) -> Iterator[Open]:
    contexts: list[BrowserContext] = []

    def open_(
        size: tuple[int, int] = DESKTOP, scheme: str = "light", at: str = url, task: str = made.task
    ) -> Visit:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        found = Visit(context.new_page(), at, task)
        found.page.on("console", lambda told: found.complaints.append(told.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        return found

    yield open_
    for context in contexts:
        context.close()


def convicted(made: Scene) -> tuple[Id, Id]:
    """Who proposed the lie of the history, and who attested it: the draw decides, not the test."""
    proposer, attester = (event.id for _, event in made.net.chain.world.log if isinstance(event, Convicted))
    return proposer, attester


def keep(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def test_every_page_loads_without_complaint_and_fits(
    visit: Open, made: Scene, size: tuple[int, int], scheme: str
) -> None:
    here = visit(size, scheme)
    liar = made.net.task.by_id(convicted(made)[0]).address.hex()
    name = "phone" if size == PHONE else scheme
    places: dict[str, Callable[[], Page]] = {
        "tasks": lambda: here.see("#/"),
        "task": lambda: here.see(f"#/task/{here.task}"),
        "round-lie": lambda: here.round(3),
        "round-void": lambda: here.round(4),
        "round-unavailable": lambda: here.round(2),
        "round-open": lambda: here.round(6),
        "participant": lambda: here.see(f"#/task/{here.task}/account/0x{liar}"),
    }

    for place, go in places.items():
        page = go()
        keep(page, f"{place}-{name}")
        assert fits(page), place

    assert here.complaints == []


def test_a_lie_is_visible_as_a_lie(visit: Open, made: Scene) -> None:
    proposer, attester = convicted(made)
    page = visit().round(3)

    box = page.locator("section.lie")
    expect(box).to_contain_text(f"participant #{proposer} proposed a wrong model")
    expect(box).to_contain_text(f"{LIE_AT}")
    expect(box).to_contain_text(f"#{attester} attested it and was slashed 0.5 ETH")
    expect(page.locator(".title")).to_contain_text("a lie was proven")
    expect(page.locator(".steps .bad").first).to_contain_text("LIE PROVEN")
    expect(page.locator(".attempt").first).to_contain_text("attested the lie")


def test_the_audit_is_a_numbered_list_with_its_verdict(visit: Open) -> None:
    here = visit()

    good = here.round(3).locator(".checks li")
    expect(good).to_have_count(12)
    expect(here.page.locator(".verdict")).to_contain_text("All 12 checks hold")

    here.round(2)
    missing = here.page.locator(".checks li", has_text="update roots")
    expect(missing).to_contain_text("data unavailable")
    expect(missing).to_contain_text("nobody has put these bytes")


def test_scores_are_a_table_of_validators_by_workers(visit: Open) -> None:
    page = visit().round(3)

    expect(page.locator(".heat tbody tr")).to_have_count(3)
    expect(page.locator(".heat thead th")).to_have_count(2 + 8)
    expect(page.locator(".bars progress")).to_have_count(8)


def test_a_chart_leads_to_its_round(visit: Open) -> None:
    here = visit()
    page = here.see(f"#/task/{here.task}")

    page.locator('svg.chart a[aria-label^="round 3: loss"]').click()

    expect(page.locator("h1")).to_have_text("Round 3")


def test_everything_can_be_reached_with_the_keyboard(visit: Open) -> None:
    here = visit()
    page = here.see("#/")

    page.keyboard.press("Tab")
    for _ in range(12):
        if page.evaluate("document.activeElement.textContent") == "Task 1":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Task 1")

    here.round(3)
    page.locator("summary", has_text="Gas").focus()
    page.keyboard.press("Enter")
    expect(page.locator("details", has_text="Gas").locator("table")).to_be_visible()


def test_the_keyboard_passes_charts_by_for_the_table_has_the_same_links(visit: Open) -> None:
    here = visit()
    page = here.see(f"#/task/{here.task}")

    page.locator("#theme").focus()
    stops = []
    for _ in range(3):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent"))

    assert stops == ["Rounds", "Round 6", "redo round 6"]


def test_losses_that_fall_by_decades_have_a_logarithmic_axis(visit: Open, tmp_path: Path) -> None:
    trained = scene(rounds=9)
    for _ in range(7):
        play_plain(trained.net)
    with serving(trained, tmp_path) as at:
        here = visit(at=at, task=trained.task)
        page = here.see(f"#/task/{trained.task}")
        keep(page, "task-trained")

        expect(page.locator("section", has_text="Loss of the head").last).to_contain_text("logarithmic")
        ticks = page.locator('svg[aria-label="Loss of the head by round"] text').all_text_contents()
        assert ticks[:5] == ["1e-4", "0.001", "0.01", "0.1", "1"]
        assert here.complaints == []


def test_the_index_can_be_compared_with_the_chain_from_every_page(visit: Open) -> None:
    page = visit().see("#/")

    page.locator("footer a", has_text="compare").click()

    expect(page.locator("body")).to_contain_text('"verdict":"ok"')


def test_light_and_dark_can_be_changed_and_are_remembered(visit: Open) -> None:
    here = visit(scheme="dark")
    page = here.see("#/")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.locator("#theme").click()
    page.reload()
    page.wait_for_selector("main[data-ready]")

    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_a_place_that_does_not_exist_says_so(visit: Open) -> None:
    page = visit().see("#/somewhere/else")

    expect(page.locator("h1")).to_have_text("Not to be had")
    expect(page.locator("main a")).to_have_attribute("href", "#/")


def test_a_round_that_is_played_appears_by_itself(visit: Open, tmp_path: Path) -> None:
    young = scene()
    play_plain(young.net)
    with serving(young, tmp_path) as at:
        here = visit(at=at, task=young.task)
        page = here.see(f"#/task/{young.task}")
        expect(page.locator(".live")).to_have_text("live")
        expect(page.locator("tbody a", has_text="Round 2")).to_have_count(1)

        play_plain(young.net)
        expect(page.locator("tbody a", has_text="Round 3")).to_have_count(1)

        here.round(3)
        play_open(young.net, Phase.TRAIN)
        expect(page.locator(".phases .now")).to_have_text("Train")
        expect(page.locator(".steps")).to_contain_text("commits to an update")
        keep(page, "live")
        assert here.complaints == []
