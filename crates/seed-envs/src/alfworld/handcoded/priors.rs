//! What the handcoded expert knows about houses: which things are found where.
//!
//! The classes and the table are those of ALFRED (MIT licence), as the official expert uses them.

/// Classes of things by their ALFRED names; a task's parameters are lower-cased when they are among these.
const CLASSES: &str = "AlarmClock Apple ArmChair BaseballBat BasketBall Bathtub BathtubBasin Bed Blinds Book Boots Bowl Box \
    Bread ButterKnife Cabinet Candle Cart CD CellPhone Chair Cloth CoffeeMachine CounterTop CreditCard \
    Cup Curtains Desk DeskLamp DishSponge Drawer Dresser Egg FloorLamp Footstool Fork Fridge GarbageCan \
    Glassbottle HandTowel HandTowelHolder HousePlant Kettle KeyChain Knife Ladle Laptop LaundryHamper \
    LaundryHamperLid Lettuce LightSwitch Microwave Mirror Mug Newspaper Ottoman Painting Pan PaperTowel \
    PaperTowelRoll Pen Pencil PepperShaker Pillow Plate Plunger Poster Pot Potato RemoteControl Safe \
    SaltShaker ScrubBrush Shelf ShowerDoor ShowerGlass Sink SinkBasin SoapBar SoapBottle Sofa Spatula \
    Spoon SprayBottle Statue StoveBurner StoveKnob DiningTable CoffeeTable SideTable TeddyBear \
    Television TennisRacket TissueBox Toaster Toilet ToiletPaper ToiletPaperHanger ToiletPaperRoll \
    Tomato Towel TowelHolder TVStand Vase Watch WateringCan Window WineBottle";

/// Receptacle classes, each with the classes of things that are likely in or on it.
const LIKELY: &[(&str, &str)] = &[
    (
        "armchair",
        "basketball book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol",
    ),
    ("bathtubbasin", "cloth dishsponge handtowel soapbar"),
    ("bed", "baseballbat basketball book cellphone laptop newspaper pillow tennisracket"),
    (
        "bowl",
        "apple butterknife candle cd cellphone cloth creditcard dishsponge egg fork keychain knife \
         ladle lettuce mug papertowel pen pencil potato remotecontrol spatula spoon tomato watch",
    ),
    (
        "box",
        "alarmclock book candle cd cellphone cloth creditcard dishsponge glassbottle keychain mug \
         papertowel pen pencil remotecontrol statue tissuebox vase watch",
    ),
    (
        "cabinet",
        "book bowl box candle cd cloth cup dishsponge glassbottle handtowel kettle ladle mug newspaper \
         pan peppershaker plate plunger pot saltshaker soapbar soapbottle spraybottle tissuebox \
         toiletpaper toiletpaperroll vase wateringcan winebottle",
    ),
    (
        "cart",
        "candle cloth dishsponge handtowel mug papertowel plunger soapbar soapbottle spraybottle statue \
         tissuebox toiletpaper toiletpaperroll vase",
    ),
    ("coffeemachine", "mug"),
    (
        "coffeetable",
        "alarmclock apple baseballbat basketball book bowl box bread butterknife candle cd cellphone \
         cloth creditcard cup dishsponge egg fork glassbottle handtowel kettle keychain knife ladle \
         laptop lettuce mug newspaper pan papertowel pen pencil peppershaker plate pot potato \
         remotecontrol saltshaker soapbar soapbottle spatula spoon spraybottle statue tennisracket \
         tissuebox toiletpaper toiletpaperroll tomato vase watch wateringcan winebottle",
    ),
    (
        "countertop",
        "alarmclock apple baseballbat basketball book bowl box bread butterknife candle cd cellphone \
         cloth creditcard cup dishsponge egg fork glassbottle handtowel kettle keychain knife ladle \
         laptop lettuce mug newspaper pan papertowel pen pencil peppershaker plate pot potato \
         remotecontrol saltshaker soapbar soapbottle spatula spoon spraybottle statue tennisracket \
         tissuebox toiletpaper toiletpaperroll tomato vase watch wateringcan winebottle",
    ),
    ("cup", "butterknife fork spoon"),
    (
        "desk",
        "alarmclock basketball book bowl box candle cd cellphone cloth creditcard cup glassbottle \
         keychain laptop mug newspaper pen pencil plate remotecontrol soapbottle spraybottle statue \
         tennisracket tissuebox toiletpaper toiletpaperroll vase watch wateringcan winebottle",
    ),
    (
        "diningtable",
        "alarmclock apple baseballbat basketball book bowl box bread butterknife candle cd cellphone \
         cloth creditcard cup dishsponge egg fork glassbottle handtowel kettle keychain knife ladle \
         laptop lettuce mug newspaper pan papertowel pen pencil peppershaker plate pot potato \
         remotecontrol saltshaker soapbar soapbottle spatula spoon spraybottle statue tennisracket \
         tissuebox toiletpaper toiletpaperroll tomato vase watch wateringcan winebottle",
    ),
    (
        "drawer",
        "book butterknife candle cd cellphone cloth creditcard dishsponge fork handtowel keychain knife \
         ladle newspaper pen pencil peppershaker remotecontrol saltshaker soapbar soapbottle spatula \
         spoon spraybottle tissuebox toiletpaper toiletpaperroll watch wateringcan",
    ),
    (
        "dresser",
        "alarmclock basketball book bowl box candle cd cellphone cloth creditcard cup glassbottle \
         keychain laptop mug newspaper pen pencil plate remotecontrol spraybottle statue tennisracket \
         tissuebox toiletpaper toiletpaperroll vase watch wateringcan winebottle",
    ),
    ("fridge", "apple bowl bread cup egg glassbottle lettuce mug pan plate pot potato tomato winebottle"),
    (
        "garbagecan",
        "apple bread cd cloth dishsponge egg handtowel lettuce newspaper papertowel pen pencil potato \
         soapbar soapbottle spraybottle tissuebox toiletpaper toiletpaperroll tomato winebottle",
    ),
    ("handtowelholder", "handtowel"),
    ("laundryhamper", "cloth"),
    ("microwave", "apple bowl bread cup egg glassbottle mug plate potato tomato"),
    ("mug", "butterknife fork keychain knife pen pencil spoon watch"),
    (
        "ottoman",
        "basketball book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol",
    ),
    ("paintinghanger", ""),
    ("pan", "apple butterknife dishsponge egg fork knife ladle lettuce potato spatula spoon tomato"),
    (
        "plate",
        "alarmclock apple book butterknife candle cd cellphone cloth creditcard dishsponge egg fork \
         glassbottle keychain knife ladle lettuce mug papertowel pen pencil potato spatula spoon \
         tissuebox tomato watch",
    ),
    ("pot", "apple butterknife dishsponge egg fork knife ladle lettuce potato spatula spoon tomato"),
    ("safe", "cd cellphone creditcard keychain statue vase watch"),
    (
        "shelf",
        "alarmclock book bowl box candle cd cellphone cloth creditcard cup dishsponge glassbottle \
         handtowel kettle keychain mug newspaper papertowel pen pencil peppershaker plate pot \
         remotecontrol saltshaker soapbar soapbottle spraybottle statue tissuebox toiletpaper \
         toiletpaperroll vase watch wateringcan winebottle",
    ),
    (
        "sidetable",
        "alarmclock apple baseballbat basketball book bowl box bread butterknife candle cd cellphone \
         cloth creditcard cup dishsponge egg fork glassbottle handtowel kettle keychain knife ladle \
         laptop lettuce mug newspaper pan papertowel pen pencil peppershaker plate pot potato \
         remotecontrol saltshaker soapbar soapbottle spatula spoon spraybottle statue tennisracket \
         tissuebox toiletpaper toiletpaperroll tomato vase watch wateringcan winebottle",
    ),
    (
        "sinkbasin",
        "apple bowl butterknife cloth cup dishsponge egg fork glassbottle handtowel kettle knife ladle \
         lettuce mug pan plate pot potato soapbar spatula spoon tomato",
    ),
    ("sofa", "basketball book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol"),
    ("stoveburner", "kettle pan pot"),
    ("toaster", ""),
    (
        "toilet",
        "candle cloth dishsponge handtowel newspaper papertowel soapbar soapbottle spraybottle \
         tissuebox toiletpaper toiletpaperroll",
    ),
    ("toiletpaperhanger", "toiletpaper toiletpaperroll"),
    ("towelholder", "towel"),
    ("tvstand", "tissuebox"),
];

/// Receptacle classes that have a door, a lid or a drawer.
const OPENABLE: &[&str] = &["fridge", "cabinet", "microwave", "drawer", "safe", "box"];

/// A task parameter as the expert compares it with class names.
pub(super) fn lower_class(parameter: &str) -> String {
    if CLASSES.split_whitespace().any(|class| class == parameter) {
        parameter.to_lowercase()
    } else {
        parameter.to_owned()
    }
}

/// Whether the official table has an entry for a class of things; two names are run together there.
pub(super) fn is_known(class: &str) -> bool {
    let two = ["sidetable", "teddybear"];
    CLASSES.split_whitespace().any(|known| known.to_lowercase() == class) && !two.contains(&class)
}

/// Whether a class is one of receptacles.
pub(super) fn is_receptacle(class: &str) -> bool {
    LIKELY.iter().any(|(receptacle, _)| *receptacle == class)
}

/// Whether receptacles of a class can be opened.
pub(super) fn is_openable(class: &str) -> bool {
    OPENABLE.contains(&class)
}

/// Whether things of class `thing` are likely in or on receptacles of a class.
pub(super) fn is_likely(thing: &str, receptacle: &str) -> bool {
    let found = LIKELY.iter().find(|(class, _)| *class == receptacle);
    found.is_some_and(|(_, things)| things.split_whitespace().any(|class| class == thing))
}
