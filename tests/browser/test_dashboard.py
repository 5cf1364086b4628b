"""The dashboard in a real browser: what people see, with what they use. Screenshots go to artifacts/browser."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from safetensors.numpy import load_file

from chainfl.protocol.events import Convicted
from chainfl.types import Id, Phase, Rule
from tests.api.scene import (
    LIE_AT,
    Scene,
    history,
    lose_update,
    play_lie,
    play_open,
    play_plain,
    play_void,
    scene,
)
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


def barriers(page: Page) -> list[str]:
    """What axe finds that would keep somebody out, with the first place of each."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def test_every_page_loads_without_complaint_fits_and_keeps_nobody_out(
    visit: Open, made: Scene, size: tuple[int, int], scheme: str
) -> None:
    here = visit(size, scheme)
    liar = made.net.task.by_id(convicted(made)[0]).address.hex()
    name = f"phone-{scheme}" if size == PHONE else scheme
    places: dict[str, Callable[[], Page]] = {
        "tasks": lambda: here.see("#/"),
        "task": lambda: here.see(f"#/task/{here.task}"),
        "round-lie": lambda: here.round(3),
        "round-void": lambda: here.round(4),
        "round-unavailable": lambda: here.round(2),
        "round-open": lambda: here.round(6),
        "participant": lambda: here.see(f"#/task/{here.task}/account/0x{liar}"),
        "compare": lambda: here.see(f"#/task/{here.task}/compare/3/4"),
        "search": lambda: here.see("#/search/nonsense"),
        "nowhere": lambda: here.see("#/somewhere/else"),
    }

    for place, go in places.items():
        page = go()
        keep(page, f"{place}-{name}")
        assert fits(page), place
        assert barriers(page) == [], place

    assert here.complaints == []


def test_a_lie_is_visible_as_a_lie(visit: Open, made: Scene) -> None:
    proposer, attester = convicted(made)
    page = visit().round(3)

    box = page.locator("section.lie")
    expect(box).to_contain_text(f"participant #{proposer} proposed a wrong model")
    expect(box).to_contain_text(f"{LIE_AT}")
    expect(box).to_contain_text(f"{LIE_AT} (w[{LIE_AT}])")
    expect(box).to_contain_text(f"#{attester} attested it and was slashed 0.5000 ETH")
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
    expect(missing).to_contain_text("these bytes were never stored")


def test_scores_are_a_table_of_validators_by_workers(visit: Open) -> None:
    page = visit().round(3)

    expect(page.locator(".facts")).to_contain_text("of its model, scored in round 5")
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
    expect(page.locator("h1")).to_have_text("Task 1: quadratic on points")

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


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def test_internals_are_marked_and_outsiders_shares_are_shown_over_the_rounds(
    visit: Open, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    selfish = scene(rounds=6, internals=3)
    for _ in range(4):
        play_plain(selfish.net)
    play_open(selfish.net, Phase.TRAIN)
    outsiders = [account.id for account in selfish.net.task.accounts.values() if account.id > 3]
    name = f"phone-{scheme}" if size == PHONE else scheme
    with serving(selfish, tmp_path) as at:
        here = visit(size, scheme, at, selfish.task)
        page = here.see(f"#/task/{selfish.task}")
        keep(page, f"task-internals-{name}")

        expect(page.locator("td .tag", has_text="internal")).to_have_count(3)
        expect(page.locator('svg[aria-label="Outsiders\' part of the model by round"] .dot')).to_have_count(4)
        table = page.get_by_role("region", name="Shares of outsiders by round")
        expect(table.locator("tbody tr")).to_have_count(len(outsiders))
        expect(table.locator("thead th")).to_have_count(1 + 4)
        terms = page.get_by_role("region", name="Terms")
        expect(terms).to_contain_text("softmax, steepness 1, median of the committee")
        expect(terms.locator("tr", has_text="who may join")).to_contain_text(
            "whom the list with this root names"
        )
        assert fits(page)
        assert barriers(page) == []

        page = here.round(2)
        keep(page, f"round-internals-{name}")
        card = page.locator("section.card", has_text="Who was drawn")
        expect(card.locator(".chip .inside")).to_have_count(3)
        expect(page.locator(".bars .chip .inside")).to_have_count(3)
        assert fits(page)
        assert barriers(page) == []
        assert here.complaints == []


def test_the_budget_of_outsiders_is_among_the_terms_of_varsel_alone(visit: Open, tmp_path: Path) -> None:
    selfish = scene(Rule.VARSEL, rounds=4)
    play_plain(selfish.net)
    budget = selfish.net.task.config.budget
    with serving(selfish, tmp_path) as at:
        here = visit(at=at, task=selfish.task)
        page = here.see(f"#/task/{selfish.task}")
        keep(page, "task-varsel")

        row = page.get_by_role("region", name="Terms").locator("tr", has_text="outsiders' budget")
        expect(row).to_contain_text(f"together they count for at most {budget} internals")
        assert fits(page)
        assert barriers(page) == []
        assert here.complaints == []

    here = visit()
    page = here.see(f"#/task/{here.task}")
    expect(page.get_by_role("region", name="Terms")).not_to_contain_text("outsiders")


def test_the_index_can_be_compared_with_the_chain_from_every_page(visit: Open) -> None:
    page = visit().see("#/")

    page.locator("footer a", has_text="compare").click()

    expect(page.locator("body")).to_contain_text('"verdict":"ok"')


def test_a_task_can_be_named_by_its_number(visit: Open) -> None:
    opened = visit()
    opened.page.goto(f"{opened.url}#/task/1")

    opened.page.wait_for_selector(f'main[data-ready="#/task/{opened.task}"]')
    expect(opened.page.locator("h1")).to_have_text("Task 1: quadratic on points")
    opened.page.goto(f"{opened.url}#/task/1/round/2")
    opened.page.wait_for_selector(f'main[data-ready="#/task/{opened.task}/round/2"]')
    opened.page.goto(f"{opened.url}#/task/77")
    expect(opened.page.locator("main")).to_contain_text("There is no task 77.")


def test_live_is_said_only_while_the_server_is_at_the_newest_block(visit: Open) -> None:
    opened = visit()
    opened.see("#/")
    expect(opened.page.locator("#live")).to_have_text("live")

    opened.page.route(
        "**/health",
        lambda route: route.fulfill(json={"status": "ok", "blocks_behind": 9, "seconds_behind": 108}),
    )
    expect(opened.page.locator("#live")).to_have_text("behind: 9 blocks, 108 s", timeout=15_000)


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

    expect(page.locator("h1")).to_have_text("Not found")
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


def test_anything_is_found_by_its_name(visit: Open, made: Scene) -> None:
    here = visit()
    page = here.see("#/")
    worker = made.net.task.by_id(Id(4)).address.hex()

    def search(name: str) -> None:
        page.get_by_role("searchbox").fill(name)
        page.keyboard.press("Enter")

    search("1")
    page.wait_for_selector(f'main[data-ready="#/task/{here.task}"]')
    search(f"0x{worker}")
    expect(page.locator("h1")).to_have_text("Participant #4")
    search("0x" + made.net.task.head_root.hex())
    page.wait_for_selector(f'main[data-ready="#/task/{here.task}/round/5"]')
    search("0x" + "77" * 32)
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    search("something")
    expect(page.get_by_role("heading", name="Not a name")).to_be_visible()


def test_a_hash_is_copied_whole(visit: Open, made: Scene) -> None:
    here = visit()
    here.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = here.see(f"#/task/{here.task}")

    page.locator("tr", has_text="first model").get_by_role("button").click()

    expect(page.locator(".copied")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "0x" + made.net.task.config.first_root.hex()


def test_addresses_and_transactions_lead_to_the_explorer_that_is_set(
    visit: Open, made: Scene, tmp_path: Path
) -> None:
    with serving(made, tmp_path, explorer="https://explorer.example") as at:
        here = visit(at=at)
        page = here.round(3)

        shown_by = page.locator("section.lie dl div", has_text="shown by").get_by_role("link")
        assert (shown_by.get_attribute("href") or "").startswith("https://explorer.example/address/0x")
        step = page.locator(".steps .when a").first
        assert (step.get_attribute("href") or "").startswith("https://explorer.example/tx/0x")
        assert here.complaints == []


def test_without_an_explorer_nothing_leaves_the_page(visit: Open) -> None:
    page = visit().round(3)

    assert page.locator('main a[href^="http"]').count() == 0


def test_two_rounds_are_compared(visit: Open) -> None:
    here = visit()
    page = here.see(f"#/task/{here.task}")
    page.get_by_label("first round").select_option("2")
    page.get_by_label("second round").select_option("3")
    page.get_by_role("button", name="Compare", exact=True).click()

    expect(page.locator("h1")).to_have_text("Round 2 and round 3")
    expect(page.locator("tr", has_text="lies proven")).to_contain_text("+1")
    expect(page.locator("tr", has_text="slashed")).to_contain_text("+1.0000 ETH")


def test_an_amount_too_small_for_ether_is_counted_in_wei(visit: Open) -> None:
    page = visit().see("#/")

    shown = page.evaluate(
        "async amounts => { const { eth } = await import('/static/format.js'); return amounts.map(eth); }",
        ["0", "1", "-1", "999999999", "198000000000000000"],
    )

    assert shown == ["0 ETH", "1 wei", "-1 wei", "999,999,999 wei", "0.1980 ETH"]


def test_the_finders_pay_is_part_of_what_it_earned(visit: Open, tmp_path: Path) -> None:
    noted = scene()
    finder = noted.net.task.by_id(Id(12)).address
    play_plain(noted.net)
    play_lie(noted.net, finder)
    with serving(noted, tmp_path) as at:
        page = visit(at=at).see(f"#/task/{noted.task}/account/0x{finder.hex()}")

        expect(page.locator(".facts")).to_contain_text("for lies it proved, as free stake")
        expect(page.locator("tr", has_text="Round 2")).to_contain_text("proved a lie")


def test_under_an_accuracy_rule_accuracies_are_shown(visit: Open, tmp_path: Path) -> None:
    judged = scene(Rule.SOFTMAX_ACCURACY)
    play_plain(judged.net)
    play_plain(judged.net)
    with serving(judged, tmp_path) as at:
        here = visit(at=at)
        page = here.see(f"#/task/{judged.task}")
        keep(page, "task-accuracy")
        expect(page.locator("h2").first).to_have_text("Accuracy of the head")
        expect(page.locator(".facts")).to_contain_text("head's accuracy")

        here.round(2)
        keep(page, "round-accuracy")
        expect(page.locator(".heat td[class^=h]").first).to_contain_text(" %")
        expect(page.locator(".steps")).to_contain_text("The committee's accuracy of the head is 20.00 %")
        assert here.complaints == []


def test_an_empty_chart_says_why(visit: Open, tmp_path: Path) -> None:
    young = scene()
    play_open(young.net, Phase.TRAIN)
    with serving(young, tmp_path / "young") as at:
        page = visit(at=at).see(f"#/task/{young.task}")
        keep(page, "task-young")
        expect(page.locator(".pair")).to_contain_text("their scores are known when its Tally ends")
        expect(page.locator(".pair")).to_contain_text("a round pays when it ends")

    void = scene()
    play_void(void.net)
    with serving(void, tmp_path / "void") as at:
        page = visit(at=at).see(f"#/task/{void.task}")
        expect(page.locator(".pair")).to_contain_text("every round so far ended without scores")


def test_scores_that_are_close_have_one_colour(visit: Open) -> None:
    page = visit().round(3)

    shades = set(
        page.eval_on_selector_all(".heat td[class^=h]", "cells => cells.map(cell => cell.className)")
    )

    assert shades == {"h4"}  # losses between 0.00520 and 0.00536
    expect(page.locator(".card", has=page.locator(".heat")).locator(".legend li")).to_have_count(5)


def test_the_running_phase_counts_down(visit: Open, made: Scene) -> None:
    here = visit()
    deadline = made.net.task.round.deadline
    here.page.clock.set_fixed_time(deadline - 90)
    page = here.see(f"#/task/{here.task}")

    expect(page.locator("[data-until]")).to_have_text("90 s left")
    here.page.clock.set_fixed_time(deadline - 60)
    expect(page.locator("[data-until]")).to_have_text("60 s left")
    here.page.clock.set_fixed_time(deadline + 10)
    expect(page.locator("[data-until]")).to_have_text("passed")


def test_wide_tables_say_that_there_is_more_to_the_right(visit: Open) -> None:
    here = visit(PHONE)
    page = here.see(f"#/task/{here.task}")
    hint = page.locator(".swipe").first

    expect(hint).to_be_visible()
    page.locator(".scroll").first.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    expect(hint).to_be_hidden()


def test_what_a_person_has_done_to_a_page_survives_a_live_change(visit: Open, tmp_path: Path) -> None:
    young = scene()
    play_plain(young.net)
    play_plain(young.net)
    with serving(young, tmp_path) as at:
        page = visit(PHONE, at=at).see(f"#/task/{young.task}")
        expect(page.locator(".live")).to_have_class("live on")
        page.get_by_label("first round").select_option("2")
        page.get_by_label("second round").focus()
        page.locator(".scroll").first.evaluate("box => box.scrollTo(90, 0)")

        play_plain(young.net)
        expect(page.locator("tbody a", has_text="Round 3")).to_have_count(1)

        expect(page.get_by_label("first round")).to_have_value("2")
        assert page.evaluate("document.activeElement.ariaLabel") == "second round"
        assert page.locator(".scroll").first.evaluate("box => box.scrollLeft") == 90


def test_a_rounds_model_is_downloaded_as_a_file(visit: Open, tmp_path: Path) -> None:
    page = visit().round(3)

    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the model").click()
    waiting.value.save_as(tmp_path / "model.safetensors")

    assert waiting.value.suggested_filename == "round-3.safetensors"
    assert list(load_file(tmp_path / "model.safetensors")) == ["w"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_score_can_be_read_on_every_shade(visit: Open, scheme: str) -> None:
    page = visit(scheme=scheme).round(3)

    page.eval_on_selector_all(
        ".heat td[class^=h]",
        "cells => cells.slice(0, 5).forEach((cell, shade) => { cell.className = `h${shade}`; })",
    )

    assert barriers(page) == []
