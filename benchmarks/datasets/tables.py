"""Public tables of people and websites: adult, census, credit, pima, phishing."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from benchmarks.datasets.dataset import Dataset, as_text, public_schema, read
from benchmarks.datasets.published import TABLE1


def adult(folder: Path) -> Dataset:
    """Load Adult: 48,842 people of the 1994 census, does one earn over 50,000 dollars a year?

    Public: categories and kinds as in the UCI documentation, with bounds that are round or the survey's top codes.
    """
    return Dataset(
        name="adult",
        title="Adult, UCI 2",
        table=read(folder, "adult.parquet", drop=["split"], keep=["income"]),
        target="income",
        schema=public_schema("adult"),
        published=TABLE1["adult"],
    )


def adult32(folder: Path) -> Dataset:
    """Load the 32,561 rows of Adult's training file, the number that the ClustMix paper states."""
    table = read(folder, "adult.parquet", keep=["income", "split"])
    return Dataset(
        name="adult32",
        title="Adult, UCI 2, training file",
        table=table.filter(pc.equal(table["split"], "train")).drop_columns(["split"]),
        target="income",
        schema=public_schema("adult"),
        published=TABLE1["adult"],
    )


def census(folder: Path) -> Dataset:
    """Load Census-Income (KDD): 299,285 people of 1994 and 1995, does one earn over 50,000 dollars a year?

    The survey's weights are left out, as its documentation asks. Public: categories as in census-income.names.
    """
    return Dataset(
        name="census",
        title="Census-Income (KDD), UCI 117",
        table=read(folder, "census_income_kdd.parquet", drop=["instance_weight", "split"], keep=["income"]),
        target="income",
        schema=public_schema("census"),
        published=TABLE1["census"],
    )


def credit(folder: Path) -> Dataset:
    """Load Credit Card Fraud: 284,807 payments, is one of the 492 frauds?

    `Time` is left out, which leaves the 29 features that the paper states. The other columns are principal
    components of unknown range: bounds are found from the budget.
    """
    return Dataset(
        name="credit",
        title="Credit Card Fraud, ULB",
        table=as_text(read(folder, "creditcard.parquet", drop=["Time"], keep=["Class"]), "Class"),
        target="Class",
        schema=None,
        published=TABLE1["credit"],
    )


def pima(folder: Path) -> Dataset:
    """Load Pima Indians Diabetes: 768 women, does one have diabetes?

    Zeros stand for missing values in five columns, and are values apart in the public schema.
    """
    return Dataset(
        name="pima",
        title="Pima Indians Diabetes, NIDDK",
        table=read(folder, "pima_diabetes.parquet", keep=["outcome"]),
        target="outcome",
        schema=public_schema("pima"),
    )


def phishing(folder: Path) -> Dataset:
    """Load Phishing Websites: 11,055 websites described by 30 codes, is one honest?"""
    return Dataset(
        name="phishing",
        title="Phishing Websites, UCI 327",
        table=read(folder, "phishing_websites.parquet", keep=["Result"]),
        target="Result",
        schema=public_schema("phishing"),
    )
